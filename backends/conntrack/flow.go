package conntrack

import (
	"context"
	"errors"
	"iter"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// ErrInterrupted says that a [Table] changed so much while it was read that flows may
// have been left out.
var ErrInterrupted = errors.New("interrupted")

// A Flow is one UDP entry of a connection-tracking table. Addresses are canonical: no
// IPv4 address is mapped into IPv6.
type Flow struct {
	// Source and Destination are those of the client's packets before any translation.
	Source, Destination netip.AddrPort

	// ReplySource is where answers come from: the endpoint if the flow was
	// translated, else Destination.
	ReplySource netip.AddrPort

	// Zone is the conntrack zone, 0 by default. SourceZone is one for the
	// client's direction only.
	Zone, SourceZone uint16

	// ID tells the entry from a later one with the same addresses; 0 if not known.
	ID uint32
}

func (f Flow) translated() bool { return f.ReplySource != f.Destination }

// A Table is a connection-tracking table. [Netlink] is the kernel's.
type Table interface {
	// Flows yields the UDP flows of a family as they are read. It ends with an error if
	// it could not read all, one that wraps ErrInterrupted if another attempt may.
	// Flows may be deleted meanwhile.
	Flows(ctx context.Context, f corev1.IPFamily) iter.Seq2[Flow, error]

	// Delete removes flows, and no others. It returns how many there were; one
	// that is gone already is no error. After an error it has tried the others,
	// unless ctx is done.
	Delete(ctx context.Context, flows []Flow) (deleted int, err error)
}
