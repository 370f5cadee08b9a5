package wholeproxy

import (
	"context"
	"errors"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/backends/iptables"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// Vipkit is package proxy with a backend and the consumers that a node agent has.
type Vipkit struct {
	Plane string // nftables, iptables or ipvs

	running  *proxy.Proxy
	health   *healthcheck.Services
	settings backendtest.Settings
}

// Set starts a new proxy if the settings changed, as an agent does whose flags did.
func (v *Vipkit) Set(ctx context.Context, s backendtest.State) error {
	if v.running == nil || !v.settings.Equal(s.Settings) {
		if err := v.start(ctx, s.Settings); err != nil {
			return err
		}
	}
	v.running.ReplaceServices(s.Services)
	v.running.ReplaceEndpointSlices(s.EndpointSlices)
	return v.running.Step(ctx)
}

func (v *Vipkit) start(ctx context.Context, s backendtest.Settings) error {
	if err := v.Stop(ctx); err != nil {
		return err
	}
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	backend, err := v.newBackend(ctx)
	if err != nil {
		return err
	}
	v.health, err = healthcheck.NewServices(healthcheck.ServicesOptions{Loop: healthcheck.New(healthcheck.Options{}).Loop(v.Plane)})
	if err != nil {
		return err
	}
	v.settings = s
	v.running, err = proxy.New(proxy.Options{
		Backend: backend,
		Consumers: []proxy.Consumer{
			{Name: "conntrack", Syncer: conntrack.New(conntrack.Options{})},
			{Name: "healthcheck", Syncer: v.health},
		},
		Config: cfg,
	})
	return err
}

func (v *Vipkit) newBackend(ctx context.Context) (backends.Backend, error) {
	switch v.Plane {
	case "nftables":
		return nftables.New(nftables.Options{})
	case "iptables":
		return iptables.New(iptables.Options{Variant: iptables.NFT})
	case "ipvs":
		b, err := ipvs.New(ipvs.Options{})
		if err != nil {
			return nil, err
		}
		_, err = b.Prepare(ctx) // the switches of IPVS are those of each namespace
		return b, err
	default:
		return nil, errors.New("wholeproxy: no such backend")
	}
}

// Plan returns the plan of the last Set, nil before the first.
func (v *Vipkit) Plan() *plan.Plan {
	if v.running == nil {
		return nil
	}
	return v.running.Plan()
}

// Stop closes the health-check ports and forgets the proxy, whose rules stay.
func (v *Vipkit) Stop(context.Context) error {
	v.running = nil
	if v.health == nil {
		return nil
	}
	v.health.Close()
	v.health = nil
	return nil
}

// Cleanup removes all rules.
func (v *Vipkit) Cleanup(ctx context.Context) error {
	backend, err := v.newBackend(ctx)
	if err != nil {
		return err
	}
	return backend.Cleanup(ctx)
}
