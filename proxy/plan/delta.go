package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// A Delta is what one consumer has to do to come from what it may have in place
// to a new Plan. A consumer must not change it, and may keep it.
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
	// When Full, they are all ports of New and all others that may be in place.
	Changes []Change

	// Health are the Services whose Health differs, sorted. When Full, they are
	// all that have one in New or had one in Base.
	Health []types.NamespacedName
}

// A Change is one port that may differ from what is in place.
type Change struct {
	Key Key

	// Before is every version that may be in place: the last acknowledged one and
	// each one that was attempted since, oldest first, no two equal. It is empty
	// only if the port was never seen.
	Before []*Port

	// After is the desired version, nil if the port is gone.
	After *Port
}

// A PartialError is returned by a consumer that did everything in a Delta but
// some ports. It acknowledges the others.
type PartialError struct {
	Ports map[Key]error
}

// mostTold is how many ports an error lists: a data plane that refuses everything would fill the log.
const mostTold = 5

// Error returns how many ports there are and lists the first five with their errors, sorted.
func (e *PartialError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan: %d ports were not done", len(e.Ports))
	for i, k := range e.keys() {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		if i == mostTold {
			fmt.Fprintf(&b, "; and %d more", len(e.Ports)-mostTold)
			break
		}
		fmt.Fprintf(&b, "%s%s %s %s: %v", sep, k.PortName, k.Protocol, k.Family, e.Ports[k])
	}
	return b.String()
}

// Unwrap returns the errors of the ports in the order of their keys.
func (e *PartialError) Unwrap() []error {
	list := make([]error, 0, len(e.Ports))
	for _, k := range e.keys() {
		if err := e.Ports[k]; err != nil {
			list = append(list, err)
		}
	}
	return list
}

func (e *PartialError) keys() []Key { return slices.SortedFunc(maps.Keys(e.Ports), Key.Compare) }

// partial returns the PartialError that err is or wraps, nil if none. One that is
// joined with other errors does not count: those say that something else failed too.
func partial(err error) *PartialError {
	for err != nil {
		//nolint:errorlint // errors.As would look into joined errors
		if p, ok := err.(*PartialError); ok {
			return p
		}
		err = errors.Unwrap(err)
	}
	return nil
}

// Full returns a Delta that makes a consumer, whatever it has in place, equal p.
func Full(p *Plan) *Delta {
	var c Cursor
	return c.Delta(p)
}
