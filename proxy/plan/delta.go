package plan

import "k8s.io/apimachinery/pkg/types"

// A Delta is what one consumer has to do to come from what it may have in place
// to a new Plan.
type Delta struct {
	// New is the desired state.
	New *Plan

	// Base is the Plan given as New in the last call that this consumer
	// acknowledged, at least in part; nil if there is none. A consumer that keeps a
	// state of its own and did not itself commit Base must treat the Delta as Full.
	Base *Plan

	// Full says that what is in place is unknown: list, repair, adopt.
	Full bool

	// Config says that the configuration (node, addresses, CIDRs) differs from
	// Base's, or that the Delta is Full.
	Config bool

	// Changes are the ports that may differ from what is in place, sorted by Key.
	// When Full, they are those whose Before is not empty or that changed; New has all.
	Changes []Change

	// Health are the Services whose Health differs, sorted. When Full, look at all.
	Health []types.NamespacedName
}

// A Change is one port that may differ from what is in place.
type Change struct {
	Key Key

	// Before is every version that may be in place: the last acknowledged one and
	// each one that was attempted since, oldest first. It is empty only if the port
	// was never seen.
	Before []*Port

	// After is the desired version, nil if the port is gone.
	After *Port
}

// A PartialError is returned by a consumer that did everything in a Delta but
// some ports. It acknowledges the others.
type PartialError struct {
	Ports map[Key]error
}

// Error lists the ports with their errors.
func (e *PartialError) Error() string { panic("not yet") }

// Unwrap returns the errors of the ports.
func (e *PartialError) Unwrap() []error { panic("not yet") }

// Full returns a Delta that makes a consumer, whatever it has in place, equal p.
func Full(p *Plan) *Delta { panic("not yet") }

// A Cursor remembers what one consumer may have in place, and so makes its
// Deltas. The zero value knows nothing: its first Delta is Full. A Cursor is not
// safe for concurrent use.
type Cursor struct{}

// Note takes down what Update said has changed since the last Note.
func (c *Cursor) Note(d Diff) { panic("not yet") }

// Reset makes the next Delta Full: what is in place became unknown.
func (c *Cursor) Reset() { panic("not yet") }

// Delta returns what the consumer has to do to reach p, nil if nothing.
func (c *Cursor) Delta(p *Plan) *Delta { panic("not yet") }

// Done takes down how the consumer ended d: nil acknowledges it, a PartialError
// (also wrapped) acknowledges all but the named ports, any other error makes the
// next Delta Full and keeps what was attempted.
func (c *Cursor) Done(d *Delta, err error) { panic("not yet") }
