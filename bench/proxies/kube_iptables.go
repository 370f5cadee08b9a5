package proxies

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilsysctl "k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/kubernetes/pkg/proxy/iptables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"

	"github.com/vipkit/vipkit/bench/cluster"
)

func newKubeIPTables() (Proxy, error) {
	if out, err := exec.Command("iptables", "--version").Output(); err != nil || !strings.Contains(string(out), "nf_tables") {
		return nil, fmt.Errorf("proxies: the system's iptables is not the nft one: %s %w", out, err)
	}
	c := &counter{}
	ipt := &countingIPT{Interface: utiliptables.New(utiliptables.ProtocolIPv4), counter: c}
	detector := proxyutil.NewDetectLocalByCIDR(cluster.PodCIDR)
	p, err := iptables.NewProxier(quiet(), kubeConfig(), corev1.IPv4Protocol, ipt, utilsysctl.New(), detector,
		cluster.Node, nodeIP(), nil, nil, false)
	if err != nil {
		return nil, fmt.Errorf("proxies: kube-proxy: %w", err)
	}
	return newTheirs(p, c)
}

// countingIPT counts the lines that are restored, but for comments, tables and commits.
type countingIPT struct {
	utiliptables.Interface
	counter *counter
}

// Restore counts the lines.
func (i *countingIPT) Restore(t utiliptables.Table, data []byte, f utiliptables.FlushFlag, rc utiliptables.RestoreCountersFlag) error {
	return i.counter.add(lines(data), i.Interface.Restore(t, data, f, rc))
}

// RestoreAll counts the lines.
func (i *countingIPT) RestoreAll(data []byte, f utiliptables.FlushFlag, rc utiliptables.RestoreCountersFlag) error {
	return i.counter.add(lines(data), i.Interface.RestoreAll(data, f, rc))
}

// EnsureRule counts one statement if the rule was missing.
func (i *countingIPT) EnsureRule(pos utiliptables.RulePosition, t utiliptables.Table, chain utiliptables.Chain, args ...string) (bool, error) {
	existed, err := i.Interface.EnsureRule(pos, t, chain, args...)
	if !existed && err == nil {
		i.counter.statements++
	}
	return existed, err
}

// Monitor does nothing: nobody flushes the tables, and its polling would be measured.
//
//nolint:revive // the parameters are those of the interface
func (*countingIPT) Monitor(utiliptables.Chain, []utiliptables.Table, func(), time.Duration, <-chan struct{}) {
}

func lines(data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		switch line[0] {
		case '#', '*', '\n':
		default:
			n++
		}
	}
	return n - bytes.Count(data, []byte("COMMIT\n"))
}
