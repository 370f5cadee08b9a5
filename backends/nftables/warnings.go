package nftables

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

var _ backends.Warner = (*Backend)(nil)

// Warnings returns one sentence for each setting of the kernel that may break Services, for the rules
// of another proxy, and for what of the configuration of p is not served, or nil. p may be nil. It reads
// files under /proc and /sys, and rules over netlink; it changes and removes nothing.
func (b *Backend) Warnings(_ context.Context, p *plan.Plan) []string {
	var out []string
	if b.unusable != nil {
		out = append(out, fmt.Sprintf("one IP family is left out: %v", b.unusable))
	}
	out = append(out, settings(os.DirFS("/"))...)
	for _, f := range b.wanted() {
		out = append(out, b.leftovers(f)...)
	}
	if p != nil {
		out = append(out, notServed(p)...)
	}
	return out
}

// leftovers finds the rules of kube-proxy. It may still work, or have left them behind: both
// proxies then translate the same packets.
func (b *Backend) leftovers(f *family) []string {
	var out []string
	if found, err := b.kernel.read(f, "kube-proxy"); err == nil && found != nil {
		out = append(out, fmt.Sprintf("table %s kube-proxy exists: rules of kube-proxy in mode nftables", f.nft))
	}
	found, err := b.kernel.read(f, "nat")
	if err != nil || found == nil {
		return out
	}
	for name := range found.chains {
		if strings.HasPrefix(name, "KUBE-SV") || strings.HasPrefix(name, "KUBE-SERVICES") {
			return append(out, fmt.Sprintf("table %s nat has chains KUBE-…: rules of kube-proxy in mode iptables or ipvs", f.nft))
		}
	}
	return out
}

// notServed tells what of a configuration this backend leaves out.
func notServed(p *plan.Plan) []string {
	var out []string
	for _, f := range families() {
		a := p.NodePortAddresses(f.ip)
		for _, addr := range a.Addrs {
			if addr.IsLoopback() {
				out = append(out, fmt.Sprintf("NodePorts are not served on %s", addr))
			}
		}
		for _, r := range a.Prefixes {
			if r.Addr().IsLoopback() {
				out = append(out, fmt.Sprintf("NodePorts are not served on %s", r))
			}
		}
	}
	for _, name := range p.Config().PodInterfaces {
		if !usableInterface(name) {
			out = append(out, fmt.Sprintf("pod interface %q is left out: no interface can have this name, or nft cannot write it", name))
		}
	}
	return out
}

// usableInterface reports whether a name or prefix can stand in a rule: at most
// 15 bytes, and nothing that nft takes for more than a letter.
func usableInterface(name string) bool {
	plain := strings.TrimSuffix(name, "*")
	return plain != "" && len(plain) <= 15 && comment(plain) == plain && !strings.ContainsAny(plain, "*/ ")
}

// settings reads switches of the kernel below /proc and /sys.
func settings(root fs.FS) []string {
	var out []string
	for _, s := range []struct{ file, bad, text string }{
		{"proc/sys/net/ipv4/ip_forward", "0", "net.ipv4.ip_forward is 0: nothing is forwarded to endpoints on other nodes or in pods"},
		{"proc/sys/net/ipv6/conf/all/forwarding", "0", "net.ipv6.conf.all.forwarding is 0: nothing is forwarded to endpoints over IPv6"},
		{"proc/sys/net/ipv4/conf/all/rp_filter", "1", "net.ipv4.conf.all.rp_filter is 1 (strict): answers that come in on another interface are dropped"},
	} {
		if value, err := readSetting(root, s.file); err == nil && value == s.bad {
			out = append(out, s.text)
		}
	}
	return append(out, bridges(root)...)
}

// bridges warns if packets that stay on one bridge do not pass the rules: two pods on it
// then cannot reach each other through a Service.
func bridges(root fs.FS) []string {
	found, err := fs.Glob(root, "sys/class/net/*/bridge")
	if err != nil || len(found) == 0 {
		return nil
	}
	value, err := readSetting(root, "proc/sys/net/bridge/bridge-nf-call-iptables")
	if err == nil && value == "1" {
		return nil
	}
	name := path.Base(path.Dir(found[0]))
	return []string{fmt.Sprintf("there is a bridge (%s), and br_netfilter is not loaded or net.bridge.bridge-nf-call-iptables is 0: "+
		"if pods share a bridge, they do not reach each other through a Service", name)}
}

func readSetting(root fs.FS, name string) (string, error) {
	text, err := fs.ReadFile(root, name)
	return strings.TrimSpace(string(text)), err
}
