package ipvs

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/netip"
	"regexp"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

const (
	defaultName           = "vipkit-ipvs"
	defaultMarkBase       = 0x56000000
	defaultMasqueradeMark = 0x4000

	// markRange are the bits of a mark that MarkBase leaves free.
	markRange = 0x00ffffff
)

// Options configure a [Backend]. The zero value is ready to use.
type Options struct {
	// Name is what the nftables table (family inet) is called; the metric of local routes follows from it. The Backend owns
	// both. At most 15 letters, digits, "-" and "_", a letter first. The default is "vipkit-ipvs".
	Name string

	// Balance is how connections are spread, unless PerPort says otherwise.
	Balance Balance

	// PerPort chooses for one Service port, for instance by its Ext. It is called during
	// Sync, must be quick, and give the same answer for the same port. Nil means Balance for all.
	PerPort func(p *plan.Port) Balance

	// DrainTimeout is how long connections to an endpoint that is gone may go on; 0 means
	// [DefaultDrainTimeout]; a negative value disables draining.
	DrainTimeout time.Duration

	// Timeouts are set at each full Sync, unless all are zero.
	Timeouts Timeouts

	// MarkBase are the upper eight bits of the packet marks that choose a virtual server
	// where pods, the node and others have different endpoints. No other program may use
	// marks with these eight bits. The default is 0x56000000.
	MarkBase uint32

	// MasqueradeMark is the bit of the packet mark that asks for masquerading in postrouting, where it is
	// cleared. Exactly one of the lower 24 bits must be set. The default is 0x4000.
	MasqueradeMark uint32

	// Elsewhere reports addresses of other machines, such as those of other nodes. A load-balancer
	// or external IP that is one is not bound and not served: all traffic of this node to that
	// machine would end here. It is called during Sync and must give the same answer until the next full one. Nil means
	// that there are none.
	Elsewhere func(netip.Addr) bool

	// StrictARP lets [Backend.Prepare] keep the node from answering ARP for
	// bound addresses.
	StrictARP bool

	// Logger receives one record per Sync at level Debug. If nil, nothing is logged.
	Logger *slog.Logger

	// OnSync is called at the end of every Sync by the goroutine that called it, if not nil.
	OnSync func(backends.Stats)
}

// Balance says how the connections of a virtual server are spread. The zero value is
// round robin.
type Balance struct {
	Scheduler              string // see VirtualServer
	HashPort, HashFallback bool
}

func (o Options) withDefaults() (Options, error) {
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.MarkBase == 0 {
		o.MarkBase = defaultMarkBase
	}
	if o.MasqueradeMark == 0 {
		o.MasqueradeMark = defaultMasqueradeMark
	}
	if o.Balance.Scheduler == "" {
		o.Balance.Scheduler = defaultScheduler
	}
	return o, o.check()
}

func (o Options) check() error {
	var errs []error
	if !regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,14}$`).MatchString(o.Name) {
		errs = append(errs, fmt.Errorf("ipvs: option Name %q: not a usable name", o.Name))
	}
	if o.MarkBase&markRange != 0 {
		errs = append(errs, fmt.Errorf("ipvs: option MarkBase %#x: only the upper eight bits may be set", o.MarkBase))
	}
	if bits.OnesCount32(o.MasqueradeMark) != 1 || o.MasqueradeMark&^markRange != 0 {
		errs = append(errs, fmt.Errorf("ipvs: option MasqueradeMark %#x: not one of the lower 24 bits", o.MasqueradeMark))
	}
	return errors.Join(errs...)
}

// balance returns how the connections of a port are spread.
func (o Options) balance(p *plan.Port) Balance {
	if o.PerPort == nil {
		return o.Balance
	}
	b := o.PerPort(p)
	if b.Scheduler == "" {
		b.Scheduler = defaultScheduler
	}
	return b
}
