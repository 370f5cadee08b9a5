package backends

import (
	"errors"
	"fmt"
)

// A LimitError says that a Service port is more than a data plane can hold. A Backend returns it in
// a [plan.PartialError] before it writes anything. errors.Is(err, [errors.ErrUnsupported]) is true
// for it: it is a matter of the port, not of the node's health.
type LimitError struct {
	What       string // in words: "endpoints in the cluster pool"
	Have, Most int
}

// Error returns "HAVE WHAT, at most MOST can be".
func (e *LimitError) Error() string {
	return fmt.Sprintf("%d %s, at most %d can be", e.Have, e.What, e.Most)
}

// Is makes errors.Is(e, errors.ErrUnsupported) true.
func (e *LimitError) Is(target error) bool { return target == errors.ErrUnsupported }
