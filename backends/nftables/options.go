package nftables

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
	defaultName            = "vipkit"
	defaultMasqueradeMark  = 0x4000
	defaultAffinityClients = 65536
)

// Options configure a [Backend]. The zero value is ready to use.
type Options struct {
	// Name is what the nftables tables that the Backend owns are called, one in
	// family ip and one in ip6. It creates, changes and deletes objects in these
	// two only. At most 64 letters, digits, "-" and "_", a letter first. The default is
	// "vipkit".
	Name string

	// MasqueradeMark is the bit of the packet mark (not the connection mark) by
	// which a chain asks for masquerading in postrouting, where it is cleared. Exactly one bit must be
	// set. The default is 0x4000; other bits are left alone.
	MasqueradeMark uint32

	// NFT is the nft program: a path, or a name to look for in PATH. The default is
	// "nft".
	NFT string

	// Timeout is how long one run of nft may take, with 10 s more for each MiB that it is given. Then it is
	// killed, and the next Sync reads the tables. The default is 30 s.
	Timeout time.Duration

	// Families are the IP families to program. Nil means those that the kernel
	// can do, found out at the first Sync; see [Backend.Warnings].
	Families []corev1.IPFamily

	// AffinityClients is how many clients each Service port with ClientIP affinity
	// remembers. Clients beyond it are spread as without affinity. The default is 65536; the
	// kernel allocates as they come.
	AffinityClients int

	// SkipKernelVersion leaves the version of the kernel out of Probe, for kernels
	// with features from later versions. The features themselves are tried in any case.
	SkipKernelVersion bool

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
	if o.NFT == "" {
		o.NFT = "nft"
	}
	if o.MasqueradeMark == 0 {
		o.MasqueradeMark = defaultMasqueradeMark
	}
	if o.Timeout == 0 {
		o.Timeout = process.DefaultTimeout
	}
	if o.AffinityClients == 0 {
		o.AffinityClients = defaultAffinityClients
	}
	return o, errors.Join(o.checkNames(), o.checkFamilies())
}

func (o Options) checkNames() error {
	switch {
	case !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`).MatchString(o.Name):
		return fmt.Errorf("nftables: option Name %q: not a usable name", o.Name)
	case bits.OnesCount32(o.MasqueradeMark) != 1:
		return fmt.Errorf("nftables: option MasqueradeMark %#x: not exactly one bit", o.MasqueradeMark)
	case o.Timeout < 0:
		return fmt.Errorf("nftables: option Timeout %s: negative", o.Timeout)
	case o.AffinityClients < 0:
		return fmt.Errorf("nftables: option AffinityClients %d: negative", o.AffinityClients)
	default:
		return nil
	}
}

func (o Options) checkFamilies() error {
	if err := ip.CheckFamilies(o.Families); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}
