package endpoints

import (
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

func TestInterner(t *testing.T) {
	in := newInterner()
	a := in.name(strings.Clone("node-a"))
	if b := in.name(strings.Clone("node-a")); unsafe.StringData(a) != unsafe.StringData(b) {
		t.Error("two copies of one name")
	}
	l := in.list(strings.Clone("node-a"))
	if m := in.list("node-a"); &l[0] != &m[0] || unsafe.StringData(l[0]) != unsafe.StringData(a) {
		t.Error("two copies of one list")
	}
	for i := range maxNames + 10 {
		in.name(strconv.Itoa(i))
	}
	if len(in.names) > maxNames {
		t.Errorf("%d names are kept, want at most %d", len(in.names), maxNames)
	}
	if got := in.list("node-a"); got[0] != "node-a" || l[0] != "node-a" {
		t.Errorf("after starting over %q and %q, want node-a", got, l)
	}
}
