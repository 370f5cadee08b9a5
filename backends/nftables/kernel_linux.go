package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/internal/nftgen"
)

// netlinkKernel reads over netlink, in the network namespace of the calling thread. It
// looks at our table only, so it does not matter what else there is.
type netlinkKernel struct{}

// maxReads is how often a dump is repeated that a commit has interrupted.
const maxReads = 10

func nfProto(f *family) uint8 {
	if f.addrType == "ipv6_addr" {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// request sends one message of the nftables subsystem and returns the attributes of
// every answer.
func request(msg int, flags int, proto uint8, attrs ...*nl.RtAttr) ([]attributes, error) {
	var out []attributes
	var err error
	for range maxReads {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|msg, flags)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: proto, Version: nl.NFNETLINK_V0})
		for _, a := range attrs {
			req.AddData(a)
		}
		var raw [][]byte
		raw, err = req.Execute(unix.NETLINK_NETFILTER, 0)
		if errors.Is(err, nl.ErrDumpInterrupted) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range raw {
			out = append(out, attributes(m[nl.SizeofNfgenmsg:]))
		}
		return out, nil
	}
	return nil, err
}

// attributes are the attributes of a message, or of another attribute. They are looked for as
// they are needed: a table can have a million elements.
type attributes []byte

// attrTypeMask takes the flags off an attribute's type (NLA_TYPE_MASK).
const attrTypeMask = 0x3fff

// next returns the first attribute and what follows it; ok is false at the end, and where
// something cannot be read: it may be from a newer kernel.
func (a attributes) next() (kind uint16, data, rest attributes, ok bool) {
	if len(a) < unix.SizeofRtAttr {
		return 0, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint16(a))
	if n < unix.SizeofRtAttr || n > len(a) {
		return 0, nil, nil, false
	}
	return binary.NativeEndian.Uint16(a[2:]) & attrTypeMask, a[unix.SizeofRtAttr:n], a[min(len(a), (n+3)&^3):], true
}

// get returns an attribute by its type, nil if there is none.
func (a attributes) get(t uint16) attributes {
	for kind, data, rest, ok := a.next(); ok; kind, data, rest, ok = rest.next() {
		if kind == t {
			return data
		}
	}
	return nil
}

func (a attributes) text(t uint16) string { return nl.BytesToString(a.get(t)) }

func (a attributes) uint32(t uint16) uint32 {
	data := a.get(t)
	if len(data) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(data)
}

func (a attributes) milliseconds(t uint16) time.Duration {
	data := a.get(t)
	if len(data) < 8 {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint64(data)) * time.Millisecond
}

func textAttr(t int, s string) *nl.RtAttr { return nl.NewRtAttr(t, nl.ZeroTerminated(s)) }

func (netlinkKernel) release() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", fmt.Errorf("nftables: read kernel version: %w", err)
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

func (netlinkKernel) generation() (uint32, error) { return nftgen.Read() }

func (netlinkKernel) read(f *family, table string) (*contents, error) {
	_, err := request(unix.NFT_MSG_GETTABLE, 0, nfProto(f), textAttr(unix.NFTA_TABLE_NAME, table))
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	c := &contents{chains: make(map[string]string), boxes: make(map[string]boxInfo)}
	for _, step := range []func() error{
		func() error { return err },
		func() error { return c.readChains(f, table) },
		func() error { return c.readRules(f, table) },
		func() error { return c.readBoxes(f, table) },
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("nftables: read table %s %s: %w", f.nft, table, err)
		}
	}
	return c, nil
}

func (c *contents) readChains(f *family, table string) error {
	answers, err := request(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, nfProto(f), textAttr(unix.NFTA_CHAIN_TABLE, table))
	for _, a := range answers {
		if a.text(unix.NFTA_CHAIN_TABLE) == table {
			c.chains[a.text(unix.NFTA_CHAIN_NAME)] = chainHook(a)
		}
	}
	return err
}

// chainHook returns the hook of a chain as hookPrint writes it, "" for a regular chain.
func chainHook(a attributes) string {
	at := a.get(unix.NFTA_CHAIN_HOOK)
	if at == nil {
		return ""
	}
	hooks := []knftables.BaseChainHook{
		knftables.PreroutingHook, knftables.InputHook, knftables.ForwardHook, knftables.OutputHook, knftables.PostroutingHook,
	}
	h := hook{kind: knftables.BaseChainType(a.text(unix.NFTA_CHAIN_TYPE))}
	number := int(at.uint32(unix.NFTA_HOOK_HOOKNUM))
	if number >= len(hooks) {
		h.at = knftables.BaseChainHook(strconv.Itoa(number))
		return hookPrint(h)
	}
	h.at = hooks[number]
	h.priority = knftables.BaseChainPriority(strconv.Itoa(int(int32(at.uint32(unix.NFTA_HOOK_PRIORITY)))))
	return hookPrint(h)
}

func (c *contents) readRules(f *family, table string) error {
	answers, err := request(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, nfProto(f), textAttr(unix.NFTA_RULE_TABLE, table))
	for _, a := range answers {
		if a.text(unix.NFTA_RULE_TABLE) != table {
			continue
		}
		name := a.text(unix.NFTA_RULE_CHAIN)
		if c.chains[name] != "" {
			c.chains[name] += " "
		}
		c.chains[name] += orForeign(commentOf(a.get(unix.NFTA_RULE_USERDATA)))
	}
	return err
}

// orForeign stands for a rule without a hash, which is not ours.
func orForeign(comment string) string {
	if comment == "" {
		return "foreign"
	}
	return comment
}

// commentOf finds the comment in the user data of a rule or an element: a list of type, length
// and value, in which type 0 is the comment.
func commentOf(data []byte) string {
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		kind, text := data[0], data[2:2+int(data[1])]
		if kind == 0 {
			return nl.BytesToString(text)
		}
		data = data[2+len(text):]
	}
	return ""
}

func (c *contents) readBoxes(f *family, table string) error {
	answers, err := request(unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, nfProto(f), textAttr(unix.NFTA_SET_TABLE, table))
	for _, a := range answers {
		if a.text(unix.NFTA_SET_TABLE) == table && a.uint32(unix.NFTA_SET_FLAGS)&unix.NFT_SET_ANONYMOUS == 0 {
			c.boxes[a.text(unix.NFTA_SET_NAME)] = boxInfo{
				isMap:  a.uint32(unix.NFTA_SET_FLAGS)&unix.NFT_SET_MAP != 0,
				keyLen: a.uint32(unix.NFTA_SET_KEY_LEN),
			}
		}
	}
	return err
}

func (netlinkKernel) elements(f *family, table string, b box) ([]element, error) {
	raw, err := dump(f, table, b)
	var out []element
	if err == nil && b.mereRanges() {
		out, err = f.decodeRanges(b, raw)
	} else if err == nil {
		out, err = f.decodeElements(b, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("nftables: read elements of %s %s %s: %w", f.nft, table, b.name, err)
	}
	return out, nil
}

// dump returns the elements of a box as the kernel has them.
func dump(f *family, table string, b box) ([]attributes, error) {
	answers, err := request(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, nfProto(f),
		textAttr(unix.NFTA_SET_ELEM_LIST_TABLE, table), textAttr(unix.NFTA_SET_ELEM_LIST_SET, b.name))
	var raw []attributes
	for _, a := range answers {
		raw = append(raw, a.get(unix.NFTA_SET_ELEM_LIST_ELEMENTS).list()...)
	}
	return raw, err
}

func (netlinkKernel) clients(f *family, table string, b box) ([]client, error) {
	raw, err := dump(f, table, b)
	var elements []element
	if err == nil {
		elements, err = f.decodeElements(b, raw)
	}
	if err != nil {
		return nil, fmt.Errorf("nftables: read clients of %s %s %s: %w", f.nft, table, b.name, err)
	}
	out := make([]client, 0, len(elements))
	for i, el := range elements {
		out = append(out, client{
			addr: el.id.key.addr, id: el.value.number,
			timeout: raw[i].milliseconds(unix.NFTA_SET_ELEM_TIMEOUT), expires: raw[i].milliseconds(unix.NFTA_SET_ELEM_EXPIRATION),
		})
	}
	return out, nil
}

func (netlinkKernel) element(f *family, table string, b box, k key) (element, bool, error) {
	low, high := f.encodeKey(b, k)
	one := nl.NewRtAttr(unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, nil)
	one.AddRtAttr(unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, nl.NewRtAttr(unix.NFTA_DATA_VALUE, low).Serialize())
	if b.interval {
		one.AddRtAttr(nftaSetElemKeyEnd|unix.NLA_F_NESTED, nl.NewRtAttr(unix.NFTA_DATA_VALUE, high).Serialize())
	}
	keys := nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, nil)
	keys.AddChild(one)
	answers, err := request(unix.NFT_MSG_GETSETELEM, 0, nfProto(f),
		textAttr(unix.NFTA_SET_ELEM_LIST_TABLE, table), textAttr(unix.NFTA_SET_ELEM_LIST_SET, b.name), keys)
	if errors.Is(err, unix.ENOENT) {
		return element{}, false, nil
	}
	if err == nil && len(answers) == 1 {
		var out []element
		out, err = f.decodeElements(b, answers[0].get(unix.NFTA_SET_ELEM_LIST_ELEMENTS).list())
		if len(out) == 1 {
			return out[0], true, err
		}
	}
	if err != nil {
		err = fmt.Errorf("nftables: read element of %s %s %s: %w", f.nft, table, b.name, err)
	}
	return element{}, false, err
}

// list reads a nested list, whose members all have one type.
func (a attributes) list() []attributes {
	var out []attributes
	for _, data, rest, ok := a.next(); ok; _, data, rest, ok = rest.next() {
		out = append(out, data)
	}
	return out
}

func elementKey(a attributes, t uint16) []byte { return a.get(t).get(unix.NFTA_DATA_VALUE) }

func (f *family) decodeElements(b box, raw []attributes) ([]element, error) {
	out := make([]element, 0, len(raw))
	for _, a := range raw {
		k, err := f.decodeKey(b, elementKey(a, unix.NFTA_SET_ELEM_KEY), elementKey(a, nftaSetElemKeyEnd))
		if err != nil {
			return nil, err
		}
		el := element{id: elementID{b.name, k}, comment: commentOf(a.get(unix.NFTA_SET_ELEM_USERDATA))}
		data := a.get(unix.NFTA_SET_ELEM_DATA)
		switch b.value {
		case verdictValue:
			el.value.verdict = verdictText(data.get(unix.NFTA_DATA_VERDICT))
		case addrPortValue:
			el.value.dst, err = f.decodeDst(data.get(unix.NFTA_DATA_VALUE))
		case numberValue:
			el.value.number, err = decodeNumber(data.get(unix.NFTA_DATA_VALUE))
		case noValue:
		}
		if err != nil {
			return nil, err
		}
		out = append(out, el)
	}
	return out, nil
}

// nftaSetElemKeyEnd is NFTA_SET_ELEM_KEY_END, which x/sys does not have: the upper
// end of a key with ranges (Linux 5.6).
const nftaSetElemKeyEnd = 10

func verdictText(v attributes) string {
	switch code := int32(v.uint32(unix.NFTA_VERDICT_CODE)); code {
	case unix.NFT_GOTO:
		return gotoChain(v.text(unix.NFTA_VERDICT_CHAIN))
	case unix.NFT_JUMP:
		return jump(v.text(unix.NFTA_VERDICT_CHAIN))
	case unix.NFT_RETURN:
		return ruleReturn
	case 0: // NF_DROP
		return ruleDrop
	default:
		return strconv.Itoa(int(code))
	}
}

// decodeRanges reads a set of ranges without concatenation: the kernel has the
// begin of each as an element, and the address after its end as another one with a flag.
func (f *family) decodeRanges(b box, raw []attributes) ([]element, error) {
	type mark struct {
		at  []byte
		end bool
	}
	var marks []mark
	for _, a := range raw {
		at := elementKey(a, unix.NFTA_SET_ELEM_KEY)
		if len(at) != f.fieldLen(fieldPrefix) {
			return nil, fmt.Errorf("key of %s: %d bytes: %w", b.name, len(at), errForeign)
		}
		marks = append(marks, mark{at, a.uint32(unix.NFTA_SET_ELEM_FLAGS)&unix.NFT_SET_ELEM_INTERVAL_END != 0})
	}
	slices.SortFunc(marks, func(x, y mark) int {
		if c := slices.Compare(x.at, y.at); c != 0 || x.end == y.end {
			return c
		}
		if x.end {
			return -1
		}
		return 1
	})
	var out []element
	for i, m := range marks {
		if m.end {
			continue
		}
		high := slices.Repeat([]byte{0xff}, len(m.at))
		if i+1 < len(marks) {
			high = decremented(marks[i+1].at)
		}
		out = append(out, element{id: elementID{b.name, key{src: prefixBetween(m.at, high)}}})
	}
	return out, nil
}

// decremented returns the address before a.
func decremented(a []byte) []byte {
	out := slices.Clone(a)
	for i := range slices.Backward(out) {
		out[i]--
		if out[i] != 0xff {
			break
		}
	}
	return out
}
