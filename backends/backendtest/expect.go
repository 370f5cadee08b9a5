package backendtest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A line is one expectation, or something to be done between expectations.
type line struct {
	text string

	// wait, if not 0, is how long to wait; alive, if not "", is a connection that must
	// still be open; left is a flow that must go on at one of pool, or nowhere. The other fields
	// but the limits are then not used.
	wait  time.Duration
	alive string
	left  string

	from string
	to   string          // name of a place, or an address
	port uint16          // of to
	with corev1.Protocol // "" is the variant's

	verdict plan.Verdict

	// pool are the endpoints that are possible, for verdict Forward; for Pass it is who
	// answers, if anybody.
	pool   []target
	sticks stickiness

	// passed is what becomes of a packet that is not for a Service, if nobody in pool
	// answers.
	passed string // "refused" or "dropped"

	open   string  // name to keep a connection under
	unless []Limit // packets are sent only if the data plane has none of these limits
	onlyIf Limit   // counts only for data planes with this limit
}

// A target is an expected endpoint.
type target struct {
	place      string
	port       uint16 // 0 is any
	masquerade bool
}

// stickiness says how the connections of one client are related.
type stickiness int

const (
	spread stickiness = iota // any endpoint each time, each at least once
	sticky                   // all go to one endpoint
	same                     // all go to the one that the last sticky line found
	moved                    // some client goes to another one than before
)

// parseExpect reads an expect section. Its lines are one of
//
//	FROM -> PLACE:PORT[/PROTOCOL] => RESULT [TAG]...
//	wait DURATION
//	alive NAME [TAG]...
//	left NAME [PLACE]... [TAG]...
//
// with one of these as RESULT, where ENDPOINT is PLACE[:PORT][=kept|=masqueraded]
//
//	[sticky|same|moved] ENDPOINT... kept|masqueraded
//	refused
//	dropped
//	passes to PLACE | passes refused | passes dropped
//
// and these tags: [open NAME], [if LIMIT], [unless LIMIT], which may be repeated.
func parseExpect(text string) ([]line, error) {
	var out []line
	var errs []error
	for _, l := range lines(text) {
		e, err := parseLine(l)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", l, err))
		}
		out = append(out, e)
	}
	return out, errors.Join(errs...)
}

func parseLine(text string) (line, error) {
	l := line{text: text}
	bare, err := l.parseTags(text)
	if err != nil {
		return l, err
	}
	switch fields := strings.Fields(bare); {
	case len(fields) < 2:
		return l, errors.New("too short")
	case fields[0] == "wait":
		l.wait, err = time.ParseDuration(fields[1])
		return l, err
	case fields[0] == "alive":
		l.alive = fields[1]
		return l, nil
	case fields[0] == "left":
		l.left = fields[1]
		for _, place := range fields[2:] {
			l.pool = append(l.pool, target{place: place})
		}
		return l, nil
	}
	return l, l.parsePacket(bare)
}

func (l *line) parsePacket(text string) error {
	packet, result, ok := strings.Cut(text, "=>")
	from, to, ok2 := strings.Cut(packet, "->")
	if !ok || !ok2 {
		return errors.New("want FROM -> PLACE:PORT => RESULT")
	}
	l.from = strings.TrimSpace(from)
	if err := l.parseDestination(strings.TrimSpace(to)); err != nil {
		return err
	}
	return l.parseResult(strings.Fields(result))
}

// conn returns the name of the open connection that a line is about, "" if it is about none.
func (l *line) conn() string { return l.alive + l.left }

func (l *line) parseDestination(text string) error {
	text, protocol, _ := strings.Cut(text, "/")
	l.with = corev1.Protocol(protocol)
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return errors.New("no port")
	}
	l.to = text[:i]
	port, err := strconv.ParseUint(text[i+1:], 10, 16)
	l.port = uint16(port)
	return err
}

// parseTags cuts the tags off a line.
func (l *line) parseTags(text string) (bare string, err error) {
	bare, tags, found := strings.Cut(text, " [")
	if !found {
		return bare, nil
	}
	for tag := range strings.SplitSeq(tags, "[") {
		key, value, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(tag), "]"), " ")
		switch key {
		case "":
		case "open":
			l.open = value
		case "unless":
			l.unless = append(l.unless, Limit(value))
		case "if":
			l.onlyIf = Limit(value)
		default:
			return "", fmt.Errorf("unknown tag %q", key)
		}
	}
	return bare, nil
}

func (l *line) parseResult(words []string) error {
	if len(words) == 0 {
		return errors.New("no result")
	}
	first, last := words[0], words[len(words)-1]
	switch first {
	case "refused":
		l.verdict = plan.Reject
		return nil
	case "dropped":
		l.verdict = plan.Drop
		return nil
	case "passes":
		l.verdict = plan.Pass
		if len(words) == 3 {
			l.pool = []target{{place: last}}
		}
		l.passed = last
		return nil
	}
	l.verdict = plan.Forward
	if i := slices.Index([]string{"sticky", "same", "moved"}, first); i >= 0 {
		l.sticks = sticky + stickiness(i)
		words = words[1:]
	}
	if last != "kept" && last != "masqueraded" {
		return errors.New("it does not say whether the source address is kept or masqueraded")
	}
	for _, w := range words[:len(words)-1] {
		t, err := parseTarget(w, last)
		if err != nil {
			return err
		}
		l.pool = append(l.pool, t)
	}
	if len(l.pool) == 0 {
		return errors.New("no endpoints")
	}
	return nil
}

func parseTarget(text, source string) (target, error) {
	text, own, found := strings.Cut(text, "=")
	if found {
		source = own
	}
	name, number, found := strings.Cut(text, ":")
	t := target{place: name, masquerade: source == "masqueraded"}
	if !found {
		return t, nil
	}
	port, err := strconv.ParseUint(number, 10, 16)
	t.port = uint16(port)
	return t, err
}

// validate finds names that are not in the book.
func (l *line) validate(b *book, v variant) error {
	if l.from != "" {
		if _, err := b.lookup(l.to, v.family); err != nil {
			return err
		}
	}
	if l.from != "" && l.from != "clients" && b.hosts[l.from] == "" {
		return fmt.Errorf("no host is called %q", l.from)
	}
	for _, t := range l.pool {
		if _, err := b.lookup(t.place, v.family); err != nil {
			return err
		}
	}
	return nil
}

// stays reports whether the host that is dialed is in the pool: it may answer without any Service.
func (l *line) stays() bool {
	return slices.ContainsFunc(l.pool, func(t target) bool { return t.place == l.to })
}

// flow identifies what a line dials: lines of one flow expect something of the same
// packets.
func (l *line) flow() string { return fmt.Sprintf("%s>%s:%d/%s", l.from, l.to, l.port, l.with) }

// A packets is what a line means in one variant.
type packets struct {
	host        string // that sends
	sources     []netip.Addr
	destination netip.AddrPort
	protocol    corev1.Protocol
	iface       string // of the node, on which they come in
}

func (l *line) packets(b *book, v variant) packets {
	dst, _ := b.lookup(l.to, v.family) // validated
	family := corev1.IPv4Protocol
	if dst.Is6() {
		family = corev1.IPv6Protocol
	}
	p := packets{destination: netip.AddrPortFrom(dst, l.port), protocol: v.protocol, host: b.hosts[l.from]}
	if l.with != "" {
		p.protocol = l.with
	}
	switch l.from {
	case "clients":
		p.host, p.sources = "client", clients(family)
	case "node":
		p.sources = []netip.Addr{b.addrs["node2"][family]}
	default:
		p.sources = []netip.Addr{b.addrs[l.from][family]}
	}
	p.iface = interfaces()[p.host]
	return p
}

func (p packets) packet(i int) plan.Packet {
	return plan.Packet{Source: p.sources[i], Destination: p.destination, Protocol: p.protocol, Interface: p.iface}
}
