package nftables

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/knftables"
)

// This file makes all text in the language of nft; the rest of the package deals
// in names, keys and values.

const (
	ruleMasquerade = "masquerade fully-random"
	ruleReject     = "reject"
	ruleDrop       = "drop"
	ruleReturn     = "return"
	localOnly      = "fib saddr type local"

	// maxComment is the limit of nft for a comment, in bytes: one more and the
	// transaction fails.
	maxComment = 128
)

func jump(name string) string { return "jump " + name }

func newFlow(what string) string { return "ct state new " + what }

// arriving is for packets that come from elsewhere. What the node sends to itself was judged in output, and may
// be translated and masqueraded by the time it comes in through lo.
func arriving(what string) string { return `iif != "lo" ` + what }

// newUntranslated is for the first packets of flows that no DNAT touched: what was
// forwarded may have a destination that looks like a frontend.
func newUntranslated(what string) string { return "ct state new ct status & dnat == 0 " + what }

func (f *family) addr(dir string) string { return f.nft + " " + dir }

func (f *family) dispatchAddress(box string) string {
	return f.addr("daddr") + " . meta l4proto . th dport vmap @" + box
}

func dispatchPort(box string) string { return "meta l4proto . th dport vmap @" + box }

// rangeProto is the protocol of a packet as it stands in a key with ranges. For "meta l4proto" there nft 1.0.6
// makes an operation on a single byte, which newer kernels refuse (seen in 6.12.117).
const rangeProto = "ct protocol"

func (f *family) restrictAddress() string {
	d, rest := f.addr("daddr")+" . ", " . th dport"
	return d + "meta l4proto" + rest + " @" + boxRestricted + " " + d + rangeProto + rest + " . " + f.addr("saddr") + " != @" + boxAllowed + " drop"
}

func (f *family) restrictPort() string {
	return "meta l4proto . th dport @" + boxRestrictedPorts + " " + rangeProto + " . th dport . " + f.addr("saddr") + " != @" + boxAllowedPorts + " drop"
}

func (f *family) destinationIn(box, what string) string {
	return f.addr("daddr") + " @" + box + " " + what
}

func (f *family) sourceIn(box string) string { return f.addr("saddr") + " @" + box }

// localBut matches local destinations that are not in the given ranges.
func (f *family) localBut(except []netip.Prefix, what string) string {
	words := []string{"fib daddr type local"}
	for _, p := range except {
		words = append(words, f.addr("daddr")+" != "+p.String())
	}
	return strings.Join(append(words, what), " ")
}

// inInterface matches packets that come in through an interface; the name may end
// in "*". It compares names, not indexes: the interface need not exist.
func inInterface(name string) string { return "iifname " + quote(name) }

func (l *layout) setMark() string { return fmt.Sprintf("meta mark set meta mark or %#x", l.mark) }

func (l *layout) masqueradeMarked() string {
	return fmt.Sprintf("meta mark & %#x != 0 meta mark set meta mark xor %#x ", l.mark, l.mark) + ruleMasquerade
}

// translatedTo sends packets to a chain that have an endpoint as their destination.
func translatedTo(name string) string { return "ct status dnat " + jump(name) }

// translateSlot sends the packet to one of the first n endpoints of a pool.
func (f *family) translateSlot(s shared, n int) string {
	k := string(s.proto) + " dport . " + random(n, s.offset())
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

// chooseSlot puts a random number below n into the packet's priority.
func chooseSlot(n int) string { return "meta priority set " + random(n, 0) }

func translateTo(p protocol, dst netip.AddrPort) string {
	return fmt.Sprintf("meta l4proto %s dnat to %s", p, dst)
}

const forgetPriority = "meta priority set 0:0"

// recallSize puts the size of a frontend's pool into the packet's priority.
func (f *family) recallSize(in place) string {
	frontend := "meta l4proto . th dport"
	if !in.nodePort {
		frontend = f.addr("daddr") + " . " + frontend
	}
	return "meta priority set " + frontend + " map @" + in.sizes()
}

func dispatchSize(in place) string { return "meta l4proto . meta priority vmap @" + in.picks() }

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
		if k == fieldSlot || b.dynamic {
			return "", f.typeOf(b)
		}
	}
	parts := make([]string, 0, len(b.key))
	for _, k := range b.key {
		parts = append(parts, map[field]string{
			fieldAddr: f.addrType, fieldPrefix: f.addrType, fieldProto: "inet_proto", fieldPort: "inet_service", fieldNumber: "classid",
		}[k])
	}
	typ = strings.Join(parts, " . ")
	switch b.value {
	case verdictValue:
		typ += " : verdict"
	case numberValue:
		typ += " : classid"
	case noValue, addrPortValue:
	}
	return typ, ""
}

// typeOf is for numbers that have no named type with a size, which is the result of numgen, and
// for what packets write.
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
	case numberValue:
		text += " : meta priority"
	case noValue:
	}
	return text
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
		case fieldNumber:
			parts = append(parts, priorityText(k.n))
		case fieldPrefix:
			parts = append(parts, k.src.String())
		}
	}
	return parts
}

// A transaction is a list of statements that the kernel takes as a whole.
//
// Tables, chains, rules, sets and maps are knftables' objects. Elements are the
// exception: knftables writes each into a line of its own, and of a large cluster nearly
// everything is elements.
type transaction struct {
	text       bytes.Buffer
	batch      *batch // takes the elements if not nil
	statements int    // an element counts as one

	open  string // what the last line does if it can take another element: its words before the first
	elems int    // in the last line
	err   error  // of the first object that is no valid one
}

func (tx *transaction) bytes() ([]byte, error) { return tx.text.Bytes(), tx.err }

// lineElements is how many elements of one box share a line. nft needs 40 % less memory
// with 200 than with one, and longer lines gain nothing.
const lineElements = 200

// A script writes the statements of one table into a transaction.
type script struct {
	tx    *transaction
	f     *family
	table string
}

// A verb is what a statement does with an object.
type verb string

const (
	add    verb = "add"
	remove verb = "delete"
	flush  verb = "flush"
)

// object writes a statement about anything but an element.
func (s script) object(v verb, o knftables.Object) {
	// The fake of knftables makes transactions without looking for nft.
	tx := knftables.NewFake("", "").NewTransaction()
	switch v {
	case add:
		tx.Add(o)
	case remove:
		tx.Delete(o)
	case flush:
		tx.Flush(o)
	}
	if tx.NumOperations() == 0 { // String gives the reason
		s.tx.err = errors.Join(s.tx.err, fmt.Errorf("nftables: %s %T: %s", v, o, tx))
		return
	}
	s.tx.text.WriteString(tx.String())
	s.tx.statements++
	s.tx.open = ""
}

func (s script) family() knftables.Family { return knftables.Family(s.f.nft) }

func (s script) tableItself(v verb) {
	s.object(v, &knftables.Table{Family: s.family(), Name: s.table})
}

// chain writes a chain without its rules.
func (s script) chain(v verb, c chain) {
	o := &knftables.Chain{Family: s.family(), Table: s.table, Name: c.name}
	if v == add && c.hook != nil {
		o.Type, o.Hook, o.Priority = &c.hook.kind, &c.hook.at, &c.hook.priority
	}
	s.object(v, o)
}

// rule appends a rule to a chain.
func (s script) rule(chain, rule string) {
	s.object(add, &knftables.Rule{
		Family: s.family(), Table: s.table, Chain: chain, Rule: rule, Comment: knftables.PtrTo(comment(ruleHash(rule))),
	})
}

// box writes a set or map without its elements.
func (s script) box(v verb, b box) {
	typ, typeof := s.f.typeText(b)
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
		s.object(v, &knftables.Set{Family: s.family(), Table: s.table, Name: b.name, Type: typ, TypeOf: typeof, Flags: flags, Size: size})
		return
	}
	s.object(v, &knftables.Map{Family: s.family(), Table: s.table, Name: b.name, Type: typ, TypeOf: typeof, Flags: flags, Size: size})
}

// element writes an element; to delete it the key is enough. It goes into the line of the one
// before it if that is of the same box.
func (s script) element(v verb, b box, e element) {
	s.tx.statements++
	if s.tx.batch != nil {
		s.tx.batch.element(v, s, b, e)
		return
	}
	s.line(v, b, s.elementText(v, b, e))
}

// line writes an element as text.
func (s script) line(v verb, b box, text string) {
	w := &s.tx.text
	start := string(v) + " element " + s.f.nft + " " + s.table + " " + b.name
	if s.tx.open == start && s.tx.elems < lineElements {
		w.Truncate(w.Len() - len(" }\n"))
		w.WriteString(", ")
		s.tx.elems++
	} else {
		w.WriteString(start + " { ")
		s.tx.open, s.tx.elems = start, 1
	}
	w.WriteString(text)
	w.WriteString(" }\n")
}

func (s script) elementText(v verb, b box, e element) string {
	text := strings.Join(b.keyText(e.id.key), " . ")
	if v == add && e.comment != "" {
		text += " comment " + quote(e.comment)
	}
	switch {
	case v != add || b.value == noValue:
		return text
	case b.value == verdictValue:
		return text + " : " + e.value.verdict
	case b.value == numberValue:
		return text + " : " + priorityText(e.value.number)
	default:
		return text + " : " + e.value.dst.Addr().String() + " . " + strconv.Itoa(int(e.value.dst.Port()))
	}
}
