package kubeproxy

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilsysctl "k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/kubernetes/pkg/proxy/iptables"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"
)

// versionTime is how long a program may take to say its version.
const versionTime = 10 * time.Second

func (cfg Config) newIPTables(f corev1.IPFamily) (proxier, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "iptables", "--version").Output(); err != nil || !strings.Contains(string(out), "nf_tables") {
		return nil, fmt.Errorf("the system's iptables is not the nft one: %s %w", out, err)
	}
	return iptables.NewProxier(quiet(), cfg.kubeConfig(), f, cfg.iptables(f), utilsysctl.New(), cfg.detector(f),
		cfg.Settings.NodeName, cfg.nodeIP(f), nil, cfg.health, false)
}

func (cfg Config) iptables(f corev1.IPFamily) *countingIPT {
	protocol := utiliptables.ProtocolIPv4
	if f == corev1.IPv6Protocol {
		protocol = utiliptables.ProtocolIPv6
	}
	return &countingIPT{Interface: utiliptables.New(protocol), count: cfg.Count}
}

// countingIPT counts the lines that are restored, but for comments, tables and commits.
type countingIPT struct {
	utiliptables.Interface
	count func(int, error)
}

// Restore counts the lines.
func (i *countingIPT) Restore(t utiliptables.Table, data []byte, f utiliptables.FlushFlag, rc utiliptables.RestoreCountersFlag) error {
	err := i.Interface.Restore(t, data, f, rc)
	i.count(lines(data), err)
	return err
}

// RestoreAll counts the lines.
func (i *countingIPT) RestoreAll(data []byte, f utiliptables.FlushFlag, rc utiliptables.RestoreCountersFlag) error {
	err := i.Interface.RestoreAll(data, f, rc)
	i.count(lines(data), err)
	return err
}

// EnsureRule counts one statement if the rule was missing.
func (i *countingIPT) EnsureRule(pos utiliptables.RulePosition, t utiliptables.Table, chain utiliptables.Chain, args ...string) (bool, error) {
	existed, err := i.Interface.EnsureRule(pos, t, chain, args...)
	if !existed && err == nil {
		i.count(1, nil)
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
