package iptables

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/internal/ip"
)

const (
	defaultName           = "VIPKIT"
	defaultMasqueradeMark = 0x4000
	defaultLockWait       = 5 * time.Second
)

// A Variant is one of the two data planes that the iptables programs can write.
type Variant string

// The variants. Both keep their rules apart, so a node should use one of them only.
const (
	SystemVariant Variant = ""       // that of the program iptables-restore
	NFT           Variant = "nft"    // xtables-nft-multi
	Legacy        Variant = "legacy" // xtables-legacy-multi
)

// Options configure a [Backend]. The zero value is ready to use.
type Options struct {
	// Name begins the names of all chains that the Backend owns, before a "-". It
	// creates, changes and deletes such chains only, and its own jumps to them from
	// built-in chains. One to nine capital letters and digits, a letter first, not
	// "KUBE", which is kube-proxy's. The default is "VIPKIT".
	Name string

	// Variant chooses the programs. The default is what the system calls iptables.
	Variant Variant

	// MasqueradeMark is the bit of the packet mark (not the connection mark) that
	// asks for masquerading in POSTROUTING, where it is cleared. Exactly one bit must be
	// set. The default is 0x4000; other bits are left alone.
	MasqueradeMark uint32

	// Families are the IP families to program. Nil means those whose tables can be
	// read, found out at the first Sync.
	Families []corev1.IPFamily

	// LocalhostNodePorts serves NodePorts on loopback addresses of IPv4, if the plan's
	// NodePort addresses have some. It sets the sysctl net.ipv4.conf.all.route_localnet
	// while they do, and protects 127.0.0.0/8 from packets of other hosts
	// (CVE-2020-8558). If it was set before, both is left to whoever did. IPv6 has no
	// such sysctl, so loopback never serves there.
	LocalhostNodePorts bool

	// DropInvalid drops forwarded packets that connection tracking calls invalid: a
	// late one would pass untranslated and reset the client's connection. It has
	// no effect where the sysctl net.netfilter.nf_conntrack_tcp_be_liberal is set.
	DropInvalid bool

	// LockWait is how long a program waits for others that write legacy tables (its
	// flag -w), in whole seconds. The default is 5 s. The nft variant needs no lock.
	LockWait time.Duration

	// Timeout is how long one run of a program may take besides LockWait, with 10 s more for each MiB that it is given;
	// iptables-save may take four times as long. Then it is killed, and the next Sync reads the tables. The default is 30 s.
	Timeout time.Duration

	// Logger receives one record per Sync at level Debug. If nil, nothing is
	// logged.
	Logger *slog.Logger

	// OnSync is called at the end of every Sync and Cleanup by the goroutine that
	// called it, if not nil.
	OnSync func(backends.Stats)
}

// withDefaults returns o with every field set, or what is wrong with it.
func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.MasqueradeMark == 0 {
		o.MasqueradeMark = defaultMasqueradeMark
	}
	if o.LockWait == 0 {
		o.LockWait = defaultLockWait
	}
	if o.Timeout == 0 {
		o.Timeout = process.DefaultTimeout
	}
	return o, errors.Join(o.checkNames(), o.checkFamilies())
}

func (o Options) checkNames() error {
	switch {
	case !regexp.MustCompile(`^[A-Z][A-Z0-9]{0,8}$`).MatchString(o.Name) || o.Name == "KUBE":
		return fmt.Errorf("iptables: option Name %q: not a usable name", o.Name)
	case o.Variant != SystemVariant && o.Variant != NFT && o.Variant != Legacy:
		return fmt.Errorf("iptables: option Variant %q: not nft or legacy", o.Variant)
	case bits.OnesCount32(o.MasqueradeMark) != 1:
		return fmt.Errorf("iptables: option MasqueradeMark %#x: not exactly one bit", o.MasqueradeMark)
	case o.Timeout < 0:
		return fmt.Errorf("iptables: option Timeout %s: negative", o.Timeout)
	case o.LockWait < time.Second:
		return fmt.Errorf("iptables: option LockWait %s: less than a second", o.LockWait)
	default:
		return nil
	}
}

func (o Options) checkFamilies() error {
	if err := ip.CheckFamilies(o.Families); err != nil {
		return fmt.Errorf("iptables: %w", err)
	}
	return nil
}
