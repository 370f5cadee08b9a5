package backends

import "errors"

// An UnsupportedError says that the system lacks something that a backend
// needs. errors.Is(err, [errors.ErrUnsupported]) is true for it, so that tests and
// agents can tell "not on this machine" from "broken".
//
// A [Prober] that misses several things joins one UnsupportedError for each with
// [errors.Join].
type UnsupportedError struct {
	// Feature is what is missing, in words: "nftables", "the nft program",
	// "IPVS", "the right CAP_NET_ADMIN".
	Feature string

	// Minimum is the lowest version that has it, as in "Linux 5.13" or "nft
	// 1.0.1"; "" if no version is known to help.
	Minimum string

	// Err is how it was found out; nil if there is no more to say.
	Err error
}

// Error returns "FEATURE is missing (needs MINIMUM): ERR" without what is empty.
func (e *UnsupportedError) Error() string {
	text := e.Feature + " is missing"
	if e.Minimum != "" {
		text += " (needs " + e.Minimum + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Is makes errors.Is(e, errors.ErrUnsupported) true.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// Unwrap returns e.Err.
func (e *UnsupportedError) Unwrap() error { return e.Err }
