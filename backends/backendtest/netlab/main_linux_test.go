package netlab

import (
	"os"
	"os/exec"
	"testing"
)

// A runner is tests that end with a code.
type runner func() int

func (r runner) Run() int { return r() }

func TestMainNoticesWhatIsLeft(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
	ns, err := NewNamespace()
	if err != nil {
		t.Skip(err) // TestRouting fails instead if there must be one
	}
	t.Cleanup(func() {
		if closeErr := ns.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	tests := []struct {
		name string
		run  runner
		want int
	}{
		{"nothing left", func() int { return 0 }, 0},
		{"nothing left, a test failed", func() int { return 3 }, 3},
		{"a table left", func() int {
			if out, err := exec.Command("nft", "add", "table", "ip", "left").CombinedOutput(); err != nil {
				t.Errorf("nft: %v: %s", err, out)
			}
			return 0
		}, 1},
		{"a table left, a test failed", func() int { return 3 }, 3},
	}
	for _, tt := range tests { // no subtests: the third leaves something to the fourth
		err := ns.Do(func() error {
			if got := runTidy(tt.run); got != tt.want {
				t.Errorf("%s: code %d, want %d", tt.name, got, tt.want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
