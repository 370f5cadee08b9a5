package nftables

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A reader counts what is read of nftables over netlink.
type reader struct {
	kernel
	tables, dumps, lookups int
}

func (r *reader) read(f *family, table string) (*contents, error) {
	r.tables++
	return r.kernel.read(f, table)
}

func (r *reader) elements(f *family, table string, b box) ([]element, error) {
	r.dumps++
	return r.kernel.elements(f, table, b)
}

func (r *reader) element(f *family, table string, b box, k key) (element, bool, error) {
	r.lookups++
	return r.kernel.element(f, table, b, k)
}

// spy returns a program that is nft and writes down its arguments and its input.
func spy(t *testing.T) (program string, said func() string) {
	t.Helper()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program, log := filepath.Join(dir, "nft"), filepath.Join(dir, "log")
	text := fmt.Sprintf("#!/bin/sh\necho \"run $@\" >>%[1]s\ntee -a %[1]s | exec %[2]s \"$@\"\n", log, nft)
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// restChains lets the chains that were emptied be deleted with the next Sync.
func restChains(b *Backend) {
	for _, t := range b.tables {
		for name := range t.dying {
			t.dying[name] = time.Time{}
		}
	}
}

// TestSteadyStateReadsNothing looks at every command that nft is given, and at what is read
// over netlink, while Services change and are checked.
func TestSteadyStateReadsNothing(t *testing.T) {
	inNetNS(t)
	program, said := spy(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{NFT: program})
	r := &reader{kernel: b.kernel}
	b.kernel = r
	w.sync(b, with(everything()...))
	*r = reader{kernel: r.kernel}
	steps := []plan.Input{
		with(app{name: "new", vip: "10.96.0.20", eps: two, change: affine}),
		{Endpoints: map[types.NamespacedName]*endpoints.Set{nameOf("plain"): tenOf(1, 9, "n2")}},
		with(app{name: "sticky", vip: "10.96.0.13", eps: "10.180.1.1:8080@n2", change: affine}),
		with(app{name: "local", gone: true}),
		{Config: twoAddresses(func(c *plan.Config) { c.NodePortAddresses.All = true })},
		with(app{name: "new", gone: true}),
	}
	for i, in := range steps {
		restChains(b)
		if s := w.sync(b, in); s.Full || s.Written == 0 {
			t.Errorf("step %d: stats %+v, want a change on what is known", i, s)
		}
		if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
			t.Errorf("step %d: Check = %q, %v", i, changed, err)
		}
	}
	if r.tables+r.dumps+r.lookups > 0 {
		t.Errorf("#66 read %d tables, %d sets and %d elements, want none", r.tables, r.dumps, r.lookups)
	}
	w.restart(b) // a full sync, as at the full sync interval
	var runs int
	for line := range strings.Lines(said()) {
		words := strings.Fields(line)
		if words[0] == "run" {
			runs++
			words = words[1:]
		}
		for _, word := range words[:min(2, len(words))] {
			if word == "list" || word == "get" || word == "-a" || word == "-j" {
				t.Errorf("#66 nft was told %q", line)
			}
		}
	}
	if runs < len(steps) {
		t.Errorf("saw %d runs of nft, want at least %d", runs, len(steps))
	}
}
