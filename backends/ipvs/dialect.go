package ipvs

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/engine"
)

// A dialect tells the engine what IPVS is. What is below the engine stands here: which virtual servers drain, and what is kept for
// them. The Backend's lock guards it.
type dialect struct {
	opts  Options
	links links
	nft   table // nil before the first use
	mode  mode  // what the engine does

	kernel     kernel // nil before the first use, and in a Cleanup without IPVS
	reconciler *Reconciler

	machine    []netip.Addr     // addresses that the machine has without us, sorted; nil if that is not known
	schedulers map[string]error // those that were tried
	marks      *marks

	placed  map[cell]string             // all that is in the table
	servers map[ServerKey]VirtualServer // ours, without real servers
	leavers map[ServerKey]*leaver
	wanted  map[netip.Addr]bool // bound addresses that the engine wants
	kept    map[netip.Addr]int  // those that leavers need: how many
}

var _ engine.Dialect[id, value] = (*dialect)(nil)

func newDialect(opts Options, l links) *dialect {
	d := &dialect{opts: opts, links: l, marks: newMarks(opts), schedulers: make(map[string]error)}
	d.renew(&record{})
	return d
}

// try finds out whether the kernel has a scheduler, once for each: by a virtual server at an
// address for documentation, which is removed at once.
func (d *dialect) try(scheduler string) error {
	if err, tried := d.schedulers[scheduler]; tried || d.kernel == nil {
		return err
	}
	probe := VirtualServer{ServerKey: ServerKey{
		Addr: netip.MustParseAddrPort("198.51.100.0:20000"), Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol,
	}, Scheduler: scheduler}
	err := d.kernel.AddServer(probe)
	if errors.Is(err, fs.ErrExist) { // left by a process that was killed here
		err = d.kernel.SetServer(probe)
	}
	if err == nil {
		err = d.kernel.DeleteServer(probe.ServerKey)
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		d.schedulers[scheduler] = err
	}
	return err
}

// use gives the dialect an IPVS.
func (d *dialect) use(k kernel) {
	d.kernel = k
	if d.reconciler == nil {
		d.reconciler = newReconciler(k, d.opts.DrainTimeout)
	}
	d.reconciler.kernel = k // it remembers what drains
}

func (d *dialect) openTable(ctx context.Context) error {
	if d.nft != nil {
		return nil
	}
	nft, err := openNFT(ctx, d.opts.Name)
	if err != nil {
		return err
	}
	d.nft = nft
	return nil
}

// removeTable removes the table, and what is left of earlier versions.
func (d *dialect) removeTable(ctx context.Context) error {
	d.renew(&record{})
	tx := d.nft.NewTransaction()
	remove(tx)
	if err := d.run(ctx, tx); err != nil {
		return err
	}
	return d.links.removeOld()
}
