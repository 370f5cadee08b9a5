package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/proxy/plan"
)

// This file makes all text in the language of nft; the rest of the package deals
// in names, keys and values.

const (
	ruleReject = "reject"
	ruleDrop   = "drop"
	ruleReturn = "return"
	localOnly  = "fib saddr type local"

	// maxComment is the limit of the kernel for the comment of a rule or an element,
	// in bytes with the final zero: one byte more and the transaction fails.
	maxComment = 127
)

func jump(name string) string { return "jump " + name }

func newFlow(what string) string { return "ct state new " + what }

// newUntranslated is for the first packets of flows that no DNAT touched: what was
// forwarded may have a destination that looks like a frontend.
func newUntranslated(what string) string { return "ct state new ct status & dnat == 0 " + what }

func (f *family) addr(dir string) string { return string(f.nft) + " " + dir }

func (f *family) dispatchAddress(box string) string {
	return f.addr("daddr") + " . meta l4proto . th dport vmap @" + box
}

func dispatchPort(box string) string { return "meta l4proto . th dport vmap @" + box }

func (f *family) restrictAddress() string {
	frontend := f.addr("daddr") + " . meta l4proto . th dport"
	return frontend + " @" + boxRestricted + " " + frontend + " . " + f.addr("saddr") + " != @" + boxAllowed + " drop"
}

func (f *family) restrictPort() string {
	const frontend = "meta l4proto . th dport"
	return frontend + " @" + boxRestrictedPorts + " " + frontend + " . " + f.addr("saddr") + " != @" + boxAllowedPorts + " drop"
}

func (f *family) destinationIn(box, what string) string {
	return f.addr("daddr") + " @" + box + " " + what
}

func (f *family) sourceIn(box string) string { return f.addr("saddr") + " @" + box }

// servedLocalAddress matches what NodePorts are served on when every address serves.
func (f *family) servedLocalAddress(what string) string {
	text := "fib daddr type local "
	for _, p := range f.unserved {
		text += f.addr("daddr") + " != " + p.String() + " "
	}
	return text + what
}

// inInterface matches packets that come in through an interface; the name may end
// in "*". It compares names, not indexes: the interface need not exist.
func inInterface(name string) string { return "iifname " + quote(name) }

func (l *layout) setMark() string { return fmt.Sprintf("meta mark set meta mark or %#x", l.mark) }

func (l *layout) masqueradeMarked() string {
	return fmt.Sprintf("meta mark & %#x != 0 meta mark set meta mark xor %#x masquerade fully-random", l.mark, l.mark)
}

func (f *family) masqueradeHairpin() string {
	return "ct status dnat " + f.addr("saddr") + " . " + f.addr("daddr") + " . meta l4proto . th dport @" + boxHairpin +
		" masquerade fully-random"
}

// translateSlot sends the packet to one of the n endpoints from slot offset on.
func (f *family) translateSlot(s shared, n, offset int) string {
	k := string(s.proto) + " dport . " + random(n, offset)
	if !s.nodePort {
		k = f.addr("daddr") + " . " + k
	}
	return fmt.Sprintf("meta l4proto %s dnat %s to %s map @%s", s.proto, f.nft, k, boxEndpoints(s.proto, s.nodePort))
}

func random(n, offset int) string {
	text := "numgen random mod " + strconv.Itoa(n)
	if offset > 0 {
		text += " offset " + strconv.Itoa(offset)
	}
	return text
}

func dispatchSlot(n int, box string) string { return random(n, 0) + " vmap @" + box }

func translateTo(p protocol, dst netip.AddrPort) string {
	return fmt.Sprintf("meta l4proto %s dnat to %s", p, dst)
}

const forgetPriority = "meta priority set 0:0"

func (f *family) recallClient(box string) string {
	return "meta priority set " + f.addr("saddr") + " map @" + box
}

func dispatchPriority(box string) string { return "meta priority vmap @" + box }

func (f *family) forgetClient(box string, id uint32) string {
	return fmt.Sprintf("delete @%s { %s : %s }", box, f.addr("saddr"), priorityText(id))
}

func (f *family) rememberClient(box string, id uint32, timeout time.Duration) string {
	seconds := max(1, int64(timeout/time.Second))
	return fmt.Sprintf("update @%s { %s timeout %ds : %s }", box, f.addr("saddr"), seconds, priorityText(id))
}

// priorityText writes a packet priority the way nft does, as a class of a queueing discipline.
func priorityText(id uint32) string { return fmt.Sprintf("%x:%x", id>>16, id&0xffff) }

// comment returns s as it can stand in a comment: nft knows no escapes inside
// quotes, and the kernel has a limit.
func comment(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '"' || r == '\\' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(s, "_"))
	if len(s) <= maxComment {
		return s
	}
	cut := maxComment
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

func quote(s string) string { return `"` + comment(s) + `"` }

// typeText returns the type of a box: the first word is type or typeof, the rest
// what follows it.
func (f *family) typeText(b box) (typ, typeof string) {
	for _, k := range b.key {
		if k == fieldSlot || k == fieldID || b.dynamic {
			return "", f.typeOf(b)
		}
	}
	parts := make([]string, 0, len(b.key))
	for _, k := range b.key {
		parts = append(parts, map[field]string{
			fieldAddr: f.addrType, fieldPrefix: f.addrType, fieldProto: "inet_proto", fieldPort: "inet_service",
		}[k])
	}
	typ = strings.Join(parts, " . ")
	if b.value == verdictValue {
		typ += " : verdict"
	}
	return typ, ""
}

// typeOf is for numbers that have no named type with a size: the result of numgen
// and the packet priority.
func (f *family) typeOf(b box) string {
	dport := string(b.proto) + " dport"
	parts := make([]string, 0, len(b.key))
	for _, k := range b.key {
		switch {
		case k == fieldAddr && b.dynamic:
			parts = append(parts, f.addr("saddr"))
		case k == fieldAddr:
			parts = append(parts, f.addr("daddr"))
		case k == fieldPort:
			parts = append(parts, dport)
		case k == fieldSlot:
			parts = append(parts, "numgen random mod 2")
		default:
			parts = append(parts, "meta priority")
		}
	}
	text := strings.Join(parts, " . ")
	switch b.value {
	case verdictValue:
		text += " : verdict"
	case addrPortValue:
		text += " : " + f.addr("daddr") + " . " + dport
	case idValue:
		text += " : meta priority"
	case noValue:
	}
	return text
}

// object returns the knftables object of a box.
func (f *family) object(table string, b box) knftables.Object {
	typ, typeof := f.typeText(b)
	var flags []knftables.SetFlag
	if b.interval {
		flags = append(flags, knftables.IntervalFlag)
	}
	if b.dynamic {
		flags = append(flags, knftables.DynamicFlag, knftables.TimeoutFlag)
	}
	var size *uint64
	if b.size > 0 {
		size = knftables.PtrTo(uint64(b.size))
	}
	if b.value == noValue {
		return &knftables.Set{Family: f.nft, Table: table, Name: b.name, Type: typ, TypeOf: typeof, Flags: flags, Size: size}
	}
	return &knftables.Map{Family: f.nft, Table: table, Name: b.name, Type: typ, TypeOf: typeof, Flags: flags, Size: size}
}

// keyText returns the key of an element of b, one text a field.
func (b box) keyText(k key) []string {
	parts := make([]string, 0, len(b.key))
	for _, fd := range b.key {
		switch fd {
		case fieldAddr:
			parts = append(parts, k.addr.String())
		case fieldProto:
			parts = append(parts, string(k.proto))
		case fieldPort:
			parts = append(parts, strconv.Itoa(int(k.port)))
		case fieldSlot:
			parts = append(parts, strconv.FormatUint(uint64(k.n), 10))
		case fieldID:
			parts = append(parts, priorityText(k.n))
		case fieldPrefix:
			parts = append(parts, k.src.String())
		}
	}
	return parts
}

// element returns the knftables object of an element of b. The value is left out
// to delete it by its key.
func (f *family) element(table string, b box, e element, withValue bool) *knftables.Element {
	o := &knftables.Element{Family: f.nft, Table: table, Key: b.keyText(e.id.key)}
	if withValue && e.comment != "" {
		o.Comment = knftables.PtrTo(e.comment)
	}
	if b.value == noValue {
		o.Set = b.name
		return o
	}
	o.Map = b.name
	switch {
	case !withValue:
	case b.value == verdictValue:
		o.Value = []string{e.value.verdict}
	default:
		o.Value = []string{e.value.dst.Addr().String(), strconv.Itoa(int(e.value.dst.Port()))}
	}
	return o
}

// Render returns the rules of a plan as text for nft -f, in a stable order: what a
// Backend with the same options writes into a fresh network namespace. It needs no kernel and
// no rights.
func Render(p *plan.Plan, opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	l := newLayout(opts, p)
	var edits []*edit
	for _, f := range families() {
		if opts.Families != nil && !slices.Contains(opts.Families, f.ip) {
			continue
		}
		e := newEdit(newTable(f), l, time.Time{})
		base := f.base(l, p)
		base.shared = nil // only the chains that the plan needs
		e.take(&item{kind: createItem, before: &program{}, after: base})
		c := compiler{layout: l, f: f}
		for port := range p.All() {
			if port.Family == f.ip {
				e.take(&item{key: port.Key, before: &program{}, after: c.compile(settle(nil, port))})
			}
		}
		edits = append(edits, e)
	}
	// The fake of knftables makes transactions without nft.
	tx := knftables.NewFake("", "").NewTransaction()
	write(tx, edits)
	return tx.String(), nil
}
