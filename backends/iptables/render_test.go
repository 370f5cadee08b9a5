package iptables

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRenderGolden shows every kind of rule. What the rules do is tested elsewhere: this
// tells a reader, and the next change, what they look like.
func TestRenderGolden(t *testing.T) {
	cfg := node()
	cfg.NodePortAddresses = plan.NodePortSelector{Primary: true, Localhost: true}
	got := render(t, planOf(cfg, everything()), Options{LocalhostNodePorts: true, DropInvalid: true})
	file := filepath.Join("testdata", "everything.rules")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, got, string(want))
}

func TestRenderFamilies(t *testing.T) {
	text := render(t, planOf(node(), everything()), Options{Families: []corev1.IPFamily{corev1.IPv6Protocol}})
	if strings.Contains(text, "# iptables-restore") || !strings.HasPrefix(text, "# ip6tables-restore --noflush\n") {
		t.Errorf("rules for IPv6 only begin with %.40q", text)
	}
	if _, err := Render(plan.New(node()), Options{Name: "-"}); err == nil {
		t.Error("Render accepts options that New does not")
	}
}

// A fakeWithout has programs that do not know some word.
type fakeWithout struct {
	*fakeKernel
	word string
}

var errUnknown = errors.New("unknown option")

func (k fakeWithout) restore(ctx context.Context, f *family, text string, try bool) error {
	if strings.Contains(text, k.word) {
		return errUnknown
	}
	return k.fakeKernel.restore(ctx, f, text, try)
}

// TestPortsThatNeedMore is about a machine without the kernel's module for SCTP or for affinity:
// other ports work, and a port that asks for it stays as it was.
func TestPortsThatNeedMore(t *testing.T) {
	for word, change := range map[string]func(*service.Service){
		"sctp":   protocols(corev1.ProtocolTCP, corev1.ProtocolSCTP),
		"recent": affine,
	} {
		t.Run(word, func(t *testing.T) {
			k := fakeWithout{newFakeKernel(), word}
			b := k.backend(t, Options{})
			b.runner = k
			if err := b.Probe(t.Context()); err != nil {
				t.Errorf("Probe = %v, though most Services work", err)
			}
			s := newStory(t, node())
			s.sync(b, with(app{name: "a", vip: "10.96.0.50", eps: remoteEPs}, app{name: "b", vip: "10.96.0.51", eps: remoteEPs}))
			err := s.try(b, with(
				app{name: "a", vip: "10.96.0.50", eps: localEPs, changes: []func(*service.Service){change}},
				app{name: "b", vip: "10.96.0.51", eps: localEPs}))
			var partial *plan.PartialError
			if !errors.As(err, &partial) || len(partial.Ports) != 1 || !errors.Is(err, errors.ErrUnsupported) || b.LastStats().Failed != 1 {
				t.Fatalf("Sync = %v, want one port that is not supported", err)
			}
			text := k.all()
			if !strings.Contains(text, "-d 10.96.0.50/32 -p tcp") || !strings.Contains(text, "--to-destination 10.200.1.2:8080") {
				t.Errorf("the other port is not written, or the address is gone:\n%s", text)
			}
			s.sync(b, with(app{name: "a", vip: "10.96.0.50", eps: localEPs}))
			equal(t, k.all(), s.fresh())
		})
	}
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	k := fakeWithout{newFakeKernel(), "addrtype"}
	b := k.backend(t, Options{})
	b.runner = k
	err := b.Probe(t.Context())
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, errUnknown) || !strings.Contains(err.Error(), "match addrtype of iptables is missing (needs iptables 1.6.2)") {
		t.Errorf("Probe = %v", err)
	}
	if strings.Contains(err.Error(), "conntrack") {
		t.Errorf("Probe names more than what is missing: %v", err)
	}
}
