package allocator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A PortRange is the ports from First to Last, both included. The zero
// PortRange has no port.
type PortRange struct{ First, Last uint16 }

// DefaultNodePorts is the range of node ports that API servers use by default.
func DefaultNodePorts() PortRange { return PortRange{30000, 32767} }

// ParsePortRange reads "N", "LO-HI", or "LO+N", which ends with LO+N; blanks
// around are ignored, and an empty text is an empty range. Port 0, which the API
// server's flag accepts, is refused: no Service can have it.
func ParsePortRange(text string) (PortRange, error) {
	r, err := parsePortRange(strings.TrimSpace(text))
	if err != nil {
		return PortRange{}, fmt.Errorf("allocator: parse port range %q: %w", text, err)
	}
	return r, nil
}

func parsePortRange(text string) (PortRange, error) {
	if text == "" {
		return PortRange{}, nil
	}
	lo, hi, isRange := strings.Cut(text, "-")
	if !isRange {
		lo, hi, isRange = strings.Cut(text, "+")
		if !isRange {
			hi = lo
		}
	}
	first, err := parsePort(lo)
	if err != nil {
		return PortRange{}, err
	}
	last, err := parsePort(hi)
	if err != nil {
		return PortRange{}, err
	}
	if strings.Contains(text, "+") {
		last += first
	}
	switch {
	case first == 0:
		return PortRange{}, errors.New("port 0 cannot be used")
	case last > 65535:
		return PortRange{}, errors.New("ports end at 65535")
	case last < first:
		return PortRange{}, errors.New("the end is before the start")
	}
	return PortRange{uint16(first), uint16(last)}, nil
}

// parsePort reads a plain decimal number without sign or blanks.
func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, errors.New("want N, LO-HI or LO+N with numbers up to 65535")
	}
	return int(n), nil
}

// Size returns how many ports r has: none if it starts with 0 or ends before it starts.
func (r PortRange) Size() int {
	if r.First == 0 {
		return 0
	}
	return max(0, int(r.Last)-int(r.First)+1)
}

// Contains reports whether port is in r.
func (r PortRange) Contains(port uint16) bool {
	return r.Size() > 0 && r.First <= port && port <= r.Last
}

// String returns "LO-HI", or "" for an empty range.
func (r PortRange) String() string {
	if r.Size() == 0 {
		return ""
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// number, at and label make PortRange a kind.
func (r PortRange) number(port uint16) (uint64, bool) {
	return uint64(port) - uint64(r.First), r.Contains(port)
}

func (r PortRange) at(n uint64) uint16 { return r.First + uint16(n) }

func (r PortRange) label(port uint16) string { return "port " + strconv.Itoa(int(port)) }
