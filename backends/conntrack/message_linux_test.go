package conntrack

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

func exampleFlow(src, dst string) Flow {
	return Flow{
		Source: netip.MustParseAddrPort(src), Destination: netip.MustParseAddrPort(dst),
		ReplySource: netip.MustParseAddrPort(dst), Zone: 7, SourceZone: 9, ID: 0x01020304,
	}
}

// A deletion has the attributes of the flow, so it can be read back as one.
func TestDeletionNamesOneFlow(t *testing.T) {
	for _, want := range []Flow{
		exampleFlow("10.180.0.99:40000", "10.96.0.10:53"),
		exampleFlow("[fd00:180::99]:40000", "[fd00:96::10]:53"),
	} {
		var m message
		m.remove(3, want)
		a, rest, err := nextAnswer(m.b)
		if err != nil || len(rest) > 0 || a.kind != unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_DELETE {
			t.Fatalf("message %+v, %d bytes left, %v", a, len(rest), err)
		}
		m.nested(nl.CTA_TUPLE_REPLY, func() { m.tuple(Flow{Source: want.ReplySource, Destination: want.Source}) })
		got, ok := parseFlow(m.b[unix.SizeofNlMsghdr+nl.SizeofNfgenmsg:])
		if !ok || got != want {
			t.Errorf("got %+v, %v; want %+v", got, ok, want)
		}
	}
}

func TestParseIncomplete(t *testing.T) {
	var m message
	flow := exampleFlow("10.180.0.99:40000", "10.96.0.10:53")
	m.nested(nl.CTA_TUPLE_ORIG, func() { m.tuple(flow) })
	if _, ok := parseFlow(m.b); ok {
		t.Error("a flow without a reply was read")
	}
	m.nested(nl.CTA_TUPLE_REPLY, func() { m.tuple(flow) })
	if _, ok := parseFlow(m.b); !ok {
		t.Error("the whole flow was not read")
	}
	for n := range len(m.b) {
		parseFlow(m.b[:n]) // must not panic
		if _, rest, err := nextAnswer(m.b[:n]); err == nil && len(rest) >= n {
			t.Errorf("nothing was taken off %d bytes", n)
		}
	}
	t.Run("I15 #36 TCP is no flow", func(t *testing.T) {
		var m message
		m.nested(nl.CTA_TUPLE_ORIG, func() {
			m.nested(nl.CTA_TUPLE_PROTO, func() { m.bytes(nl.CTA_PROTO_NUM, unix.IPPROTO_TCP) })
		})
		if _, ok := parseFlow(m.b); ok {
			t.Error("TCP was read")
		}
	})
}

func TestLastAnswer(t *testing.T) {
	tests := []struct {
		name        string
		data        []byte
		interrupted bool
		want        error
	}{
		{"done", nil, false, nil},
		{"acknowledged", errnoBytes(0), false, nil},
		{"I16 EINTR", errnoBytes(unix.EINTR), false, ErrInterrupted},
		{"I16 the flag of an inconsistent dump", nil, true, ErrInterrupted},
		{"I17 another error", errnoBytes(unix.EPERM), true, unix.EPERM},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := (answer{data: tt.data}).end(tt.interrupted); !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func errnoBytes(e unix.Errno) []byte { return nl.Uint32Attr(uint32(-int32(e))) }
