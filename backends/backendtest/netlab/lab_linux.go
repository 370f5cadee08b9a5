package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
)

// A Lab is a network of namespaces. Its methods are safe for concurrent use.
type Lab struct {
	opts  Options
	hosts map[string]*Namespace
	port  atomic.Uint32 // the last source port used

	mu      sync.Mutex
	servers map[serverKey]*server
}

type serverKey struct {
	addr  netip.AddrPort
	proto corev1.Protocol
}

// New builds a Lab. The error wraps [errors.ErrUnsupported] if the system or the
// user's rights do not allow it.
func New(opts Options) (*Lab, error) {
	l := &Lab{opts: opts, hosts: make(map[string]*Namespace), servers: make(map[serverKey]*server)}
	l.port.Store(firstPort)
	if err := l.build(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) build() error {
	names := []string{NodeName}
	for _, h := range l.opts.Hosts {
		names = append(names, h.Name)
	}
	for _, name := range names {
		if _, twice := l.hosts[name]; twice {
			return fmt.Errorf("netlab: host %s: name is used twice", name)
		}
		ns, err := NewNamespace()
		if err != nil {
			return err
		}
		l.hosts[name] = ns
		if err := ns.Do(func() error { return configure(commonSettings()) }); err != nil {
			return fmt.Errorf("netlab: host %s: %w", name, err)
		}
	}
	return l.connect()
}

// Namespace returns the namespace of a host, or of the node by [NodeName]; nil if
// there is no such host. It belongs to the Lab.
func (l *Lab) Namespace(host string) *Namespace { return l.hosts[host] }

// Owner returns the name of the host that has an address, "" if none has it.
func (l *Lab) Owner(a netip.Addr) string {
	if has(l.opts.Node, a) {
		return NodeName
	}
	for _, h := range l.opts.Hosts {
		if has(h.Addresses, a) {
			return h.Name
		}
	}
	return ""
}

// Interface returns the interface of the node that packets from a host come in on,
// "" for the node itself.
func (l *Lab) Interface(host string) string {
	for _, h := range l.opts.Hosts {
		if h.Name == host {
			return h.Interface
		}
	}
	return ""
}

// Close ends all servers and removes the network.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for k, s := range l.servers {
		errs = append(errs, s.close())
		delete(l.servers, k)
	}
	for name, ns := range l.hosts {
		errs = append(errs, ns.Close())
		delete(l.hosts, name)
	}
	return errors.Join(errs...)
}

func has(addrs []netip.Addr, a netip.Addr) bool { return slices.Contains(addrs, a) }
