package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A batch is a transaction that changes elements only, in the kernel's own language. It says
// what nft would say, without the time and the memory that nft takes to read text.
type batch struct {
	buf   []byte
	parts []part // of buf, one for each message

	// Where the lengths of what is still open are written: 0 if nothing is.
	message, list int
}

// A part tells what a message is about.
type part struct {
	verb  verb
	table *family
	box   string
}

// maxList keeps the list of elements in a message within its 16 bits of length, with room
// for one more element.
const maxList = 1<<16 - 1024

const nested = unix.NLA_F_NESTED

// begin starts a message of the batch; its number is its place in parts.
func (b *batch) begin(kind int, flags uint16, family uint8, res uint16) {
	b.end()
	b.message = len(b.buf)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, uint16(kind))
	b.buf = binary.NativeEndian.AppendUint16(b.buf, unix.NLM_F_REQUEST|flags)
	b.buf = binary.NativeEndian.AppendUint32(b.buf, uint32(len(b.parts)))
	b.buf = binary.NativeEndian.AppendUint32(b.buf, 0)
	b.buf = append(b.buf, family, nl.NFNETLINK_V0)
	b.buf = binary.BigEndian.AppendUint16(b.buf, res)
}

// end closes the open message.
func (b *batch) end() {
	if len(b.buf) == 0 {
		return
	}
	if b.list != 0 {
		b.close(b.list)
		b.list = 0
	}
	binary.NativeEndian.PutUint32(b.buf[b.message:], uint32(len(b.buf)-b.message))
}

// open starts an attribute and returns what close needs.
func (b *batch) open(kind int) (at int) {
	at = len(b.buf)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, 0)
	b.buf = binary.NativeEndian.AppendUint16(b.buf, uint16(kind))
	return at
}

func (b *batch) close(at int) {
	binary.NativeEndian.PutUint16(b.buf[at:], uint16(len(b.buf)-at))
	for len(b.buf)%unix.NLA_ALIGNTO != 0 {
		b.buf = append(b.buf, 0)
	}
}

func (b *batch) text(kind int, s string) {
	at := b.open(kind)
	b.buf = append(append(b.buf, s...), 0)
	b.close(at)
}

// start begins the batch.
func (b *batch) start() {
	b.begin(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	b.parts = append(b.parts, part{})
}

// finish ends the batch. The kernel acknowledges the last message before it.
func (b *batch) finish() {
	b.end()
	flags := b.buf[b.message+6:]
	binary.NativeEndian.PutUint16(flags, binary.NativeEndian.Uint16(flags)|unix.NLM_F_ACK)
	b.begin(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)
	b.end()
}

// element adds an element, or takes it away.
func (b *batch) element(v verb, s script, bx box, e element) {
	if len(b.parts) == 0 {
		b.start()
	}
	p := part{v, s.f, bx.name}
	if b.list == 0 || b.parts[len(b.parts)-1] != p || len(b.buf)-b.list > maxList {
		b.openList(p, s.table)
	}
	one := b.open(unix.NFTA_LIST_ELEM | nested)
	b.key(unix.NFTA_SET_ELEM_KEY, s.f, bx, e.id.key)
	if bx.interval {
		b.key(nftaSetElemKeyEnd, s.f, bx, e.id.key)
	}
	if v == add {
		b.data(bx, e.value)
		b.comment(e.comment)
	}
	b.close(one)
}

// openList begins a message with a list of elements.
func (b *batch) openList(p part, table string) {
	kind, flags := unix.NFT_MSG_NEWSETELEM, uint16(unix.NLM_F_CREATE)
	if p.verb == remove {
		kind, flags = unix.NFT_MSG_DELSETELEM, 0
	}
	b.begin(unix.NFNL_SUBSYS_NFTABLES<<8|kind, flags, nfProto(p.table), 0)
	b.parts = append(b.parts, p)
	b.text(unix.NFTA_SET_ELEM_LIST_TABLE, table)
	b.text(unix.NFTA_SET_ELEM_LIST_SET, p.box)
	b.list = b.open(unix.NFTA_SET_ELEM_LIST_ELEMENTS | nested)
}

// key adds one end of an element's key.
func (b *batch) key(kind int, f *family, bx box, k key) {
	outer, inner := b.open(kind|nested), b.open(unix.NFTA_DATA_VALUE)
	b.buf = f.appendKey(b.buf, bx, k, kind == nftaSetElemKeyEnd)
	b.close(inner)
	b.close(outer)
}

// data adds what the element gives.
func (b *batch) data(bx box, v value) {
	if bx.value == noValue {
		return
	}
	at := b.open(unix.NFTA_SET_ELEM_DATA | nested)
	if bx.value == verdictValue {
		b.verdict(v.verdict)
		b.close(at)
		return
	}
	inner := b.open(unix.NFTA_DATA_VALUE)
	if bx.value == numberValue {
		b.buf = binary.NativeEndian.AppendUint32(b.buf, v.number)
	} else {
		b.buf = appendDst(b.buf, v.dst)
	}
	b.close(inner)
	b.close(at)
}

// verdict is the reverse of verdictText.
func (b *batch) verdict(text string) {
	at := b.open(unix.NFTA_DATA_VERDICT | nested)
	chain, isGoto := strings.CutPrefix(text, gotoChain(""))
	code := int32(0) // NF_DROP
	switch {
	case isGoto:
		code = unix.NFT_GOTO
	case text == ruleReturn:
		code = unix.NFT_RETURN
	}
	inner := b.open(unix.NFTA_VERDICT_CODE)
	b.buf = binary.BigEndian.AppendUint32(b.buf, uint32(code))
	b.close(inner)
	if isGoto {
		b.text(unix.NFTA_VERDICT_CHAIN, chain)
	}
	b.close(at)
}

// comment adds a comment as nft stores it: see commentOf.
func (b *batch) comment(c string) {
	if c == "" {
		return
	}
	c = comment(c)
	at := b.open(unix.NFTA_SET_ELEM_USERDATA)
	b.buf = append(b.buf, 0, byte(len(c)+1))
	b.buf = append(append(b.buf, c...), 0)
	b.close(at)
}

// send brings a batch into the network namespace of the calling thread, all or nothing.
func (nftProgram) send(b *batch) error {
	b.finish()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open netlink socket: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	// The kernel takes a batch in one piece only. Without rights outside the user namespace the
	// buffer stays small.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, len(b.buf)) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, len(b.buf))
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1) // else errors repeat what they are about
	if err := unix.Sendto(fd, b.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send to nftables: %w", err)
	}
	return b.answer(fd)
}

var errNoAnswer = errors.New("no answer")

// answer reads what the kernel said of a batch: all of it is there when sending returns.
func (b *batch) answer(fd int) error {
	acknowledged := false
	for buf := make([]byte, 1<<16); ; {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN) && acknowledged:
			return nil
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("read answer of nftables: %w", errNoAnswer)
		case errors.Is(err, unix.EINTR):
			continue
		default:
			return fmt.Errorf("read answer of nftables: %w", err)
		}
		for m := buf[:n]; len(m) >= unix.SizeofNlMsghdr+4; {
			size := max(int(binary.NativeEndian.Uint32(m)), unix.SizeofNlMsghdr)
			if err := b.failure(m); err != nil {
				return err
			}
			acknowledged = true
			m = m[min(len(m), (size+3)&^3):]
		}
	}
}

// failure returns what an answer complains about, nil if it is an acknowledgement.
func (b *batch) failure(m []byte) error {
	code := unix.Errno(-int32(binary.NativeEndian.Uint32(m[unix.SizeofNlMsghdr:])))
	if binary.NativeEndian.Uint16(m[4:]) != unix.NLMSG_ERROR || code == 0 {
		return nil
	}
	err := error(code)
	if code == unix.ENOENT {
		err = errors.Join(errNotFound, err)
	}
	n := int(binary.NativeEndian.Uint32(m[8:]))
	if n <= 0 || n >= len(b.parts) {
		return fmt.Errorf("commit to nftables: %w", err)
	}
	p := b.parts[n]
	return fmt.Errorf("%s elements of %s %s: %w", p.verb, p.table.nft, p.box, err)
}
