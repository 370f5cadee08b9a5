package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSection(t *testing.T) {
	const begin, end = "<!-- begin score: written by make score -->", "<!-- end score -->"
	s := Section{Name: "score", By: "make score"}
	name := file(t, "before\n"+begin+"\nold\n"+end+"\nafter\n")
	for range 2 { // the second time nothing changes
		if err := s.Write(name, "new\n"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if want := "before\n" + begin + "\n\nnew\n\n" + end + "\nafter\n"; err != nil || string(got) != want {
			t.Errorf("the file is %q, %v, want %q", got, err, want)
		}
	}
	for _, text := range []string{"", begin + "\n", "<!-- begin other: written by make score -->\n" + end} {
		name := file(t, text)
		if err := s.Write(name, "new\n"); err == nil {
			t.Errorf("no error for %q", text)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}

func TestReasons(t *testing.T) {
	reasons, err := ReadReasons(file(t, "# comment\n\n kube-.* | one|two | K1 | it does | so\nours | .* | O1 | known\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"kube-proxy one": "K1: it does | so", "kube-proxy two": "K1: it does | so", "ours one": "O1: known",
		"kube-proxy three": "", "kube-proxy one-more": "", "not-kube-proxy one": "", "kube-proxy": "",
	} {
		proxy, test, _ := strings.Cut(name, " ")
		got := ""
		if i := Find(reasons, proxy, test); i >= 0 {
			got = reasons[i].ID + ": " + reasons[i].Why
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !reasons[1].Of("ours") || reasons[1].Of("kube-proxy") {
		t.Error("the second reason is of the wrong proxy")
	}
	for _, text := range []string{"kube-proxy | test | why", "( | test | K1 | why", "kube-proxy | ( | K1 | why"} {
		if _, err := ReadReasons(file(t, "\n"+text)); err == nil || !strings.Contains(err.Error(), ":2: ") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
