// Package wholeproxy puts kube-proxy and vipkit behind [backendtest.Proxy]: objects in, rules out. Set returns when they are
// written. Both are for the network namespace of the calling thread.
package wholeproxy

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/bench/kubeproxy"
)

// KubeProxy is kube-proxy's proxiers of both families.
type KubeProxy struct {
	Plane string // nftables, iptables or ipvs

	running  *kubeproxy.Proxy
	settings backendtest.Settings
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
}

// Set starts the proxiers anew if something changed that kube-proxy reads at its start only.
func (k *KubeProxy) Set(_ context.Context, s backendtest.State) error {
	old := k.settings
	old.Zone = s.Settings.Zone
	if k.running != nil && old.Equal(s.Settings) {
		k.running.SetZone(s.Settings.Zone)
		k.settings = s.Settings
		k.update(s)
		return k.running.Sync()
	}
	if k.Plane == kubeproxy.IPVS {
		if err := addressEverywhere(s.Settings.Addresses); err != nil {
			return err
		}
	}
	var err error
	k.running, err = kubeproxy.New(kubeproxy.Config{
		Plane: k.Plane, Settings: s.Settings,
		Families: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
	})
	if err != nil {
		k.running = nil
		return err
	}
	k.settings, k.services, k.slices = s.Settings, nil, nil
	k.update(s)
	return k.running.Start()
}

// update tells the proxiers of every object that is another one.
func (k *KubeProxy) update(s backendtest.State) {
	services, slices := byName(s.Services), byName(s.EndpointSlices)
	changes(k.services, services, k.running.SetService)
	changes(k.slices, slices, k.running.SetSlice)
	k.services, k.slices = services, slices
}

type object interface {
	comparable
	GetNamespace() string
	GetName() string
}

func byName[T object](objects []T) map[string]T {
	m := make(map[string]T, len(objects))
	for _, o := range objects {
		m[o.GetNamespace()+"/"+o.GetName()] = o
	}
	return m
}

// changes calls f for what differs, as an informer would: with the zero value for what does not exist.
func changes[T object](before, after map[string]T, f func(before, after T)) {
	var none T
	for name := range maps.Keys(before) {
		if after[name] == none {
			f(before[name], none)
		}
	}
	for name, o := range after {
		if before[name] != o {
			f(before[name], o)
		}
	}
}

// Stop ends the health-check listeners of the proxiers, which have no way to be stopped, and forgets them. A sync of
// nothing would do, but the rules stay: so it is the health server that hears of no Services.
func (k *KubeProxy) Stop(context.Context) error {
	if k.running == nil {
		return nil
	}
	err := k.running.StopHealth()
	k.running = nil
	return err
}

// Cleanup removes all rules.
func (k *KubeProxy) Cleanup(context.Context) error { return kubeproxy.Cleanup(k.Plane) }
