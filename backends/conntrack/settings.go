package conntrack

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Settings are sysctls of connection tracking. The zero value leaves everything as it
// is. They hold for the whole network namespace, the size of the table for the whole
// host, so nothing but a call of Apply sets them. Only the size is never made smaller.
type Settings struct {
	// MaxPerCore and MinMax give net.netfilter.nf_conntrack_max: MaxPerCore for
	// each CPU, but not more than 1,048,576 entries, which take 300 MB if they are in use;
	// and at least MinMax, whatever that is. A larger value that is there already stays: somebody
	// chose it. The number of hash buckets is raised to a quarter of the
	// value if it is less. If MaxPerCore is 0, neither is changed.
	MaxPerCore, MinMax int

	// CPUs is the number of CPUs; 0 means those of the node that are online,
	// whichever of them this process may use.
	CPUs int

	// How long flows are kept, in whole seconds, rounded up; 0 leaves a timeout alone.
	TCPEstablished, TCPCloseWait, UDP, UDPStream time.Duration

	// TCPBeLiberal makes packets outside the TCP window belong to their flow. If
	// false, the sysctl is not changed.
	TCPBeLiberal bool
}

// DefaultSettings returns kube-proxy's defaults.
func DefaultSettings() Settings {
	return Settings{MaxPerCore: 32768, MinMax: 131072, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour}
}

const (
	sysctlDir     = "proc/sys/net/netfilter/"
	hashSizeParam = "sys/module/nf_conntrack/parameters/hashsize"
	onlineCPUs    = "sys/devices/system/cpu/online"

	// maxAutomatic bounds the size that follows from the number of CPUs, as kube-proxy 1.37 does.
	maxAutomatic = 1 << 20
)

// A setting is one file and what it shall say.
type setting struct {
	file  string
	value int
}

// Apply writes the settings, below root: "/" for those of the calling process. A value
// that is right already is not written, so a read-only file with the right value is no
// error. It tries all, and returns what it wrote, as "nf_conntrack_max=131072", and all errors.
func (s Settings) Apply(root string) (written []string, err error) {
	var errs []error
	set := func(want setting, right func(is, want int) bool) {
		wrote, err := want.write(root, right)
		if err != nil {
			errs = append(errs, fmt.Errorf("conntrack: set %s: %w", filepath.Base(want.file), err))
		}
		if wrote {
			written = append(written, fmt.Sprintf("%s=%d", filepath.Base(want.file), want.value))
		}
	}
	exactly := func(is, want int) bool { return is == want }
	atLeast := func(is, want int) bool { return is >= want }
	if size := s.max(root); size > 0 {
		set(setting{sysctlDir + "nf_conntrack_max", size}, atLeast)
		set(setting{hashSizeParam, size / 4}, atLeast)
	}
	for _, want := range s.sysctls() {
		set(want, exactly)
	}
	return written, errors.Join(errs...)
}

// max returns the wanted size of the table, 0 to leave it alone.
func (s Settings) max(root string) int {
	if s.MaxPerCore <= 0 {
		return 0
	}
	cpus := s.CPUs
	if cpus <= 0 {
		cpus = nodeCPUs(root)
	}
	automatic := maxAutomatic
	if s.MaxPerCore < maxAutomatic/cpus {
		automatic = s.MaxPerCore * cpus
	}
	return max(s.MinMax, automatic)
}

// nodeCPUs returns how many CPUs the node has. runtime.NumCPU counts those that this process
// may run on, which is one or two for a container with CPUs of its own.
func nodeCPUs(root string) int {
	text, err := os.ReadFile(filepath.Join(root, onlineCPUs))
	if err == nil {
		if n, ok := countList(strings.TrimSpace(string(text))); ok {
			return n
		}
	}
	return runtime.NumCPU()
}

// countList counts the numbers of a list in the kernel's notation, as "0-3,8".
func countList(list string) (n int, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || to < from {
			return 0, false
		}
		n += int(to-from) + 1
	}
	return n, true
}

func (s Settings) sysctls() []setting {
	var list []setting
	add := func(name string, value int) {
		if value > 0 {
			list = append(list, setting{sysctlDir + name, value})
		}
	}
	add("nf_conntrack_tcp_timeout_established", seconds(s.TCPEstablished))
	add("nf_conntrack_tcp_timeout_close_wait", seconds(s.TCPCloseWait))
	add("nf_conntrack_udp_timeout", seconds(s.UDP))
	add("nf_conntrack_udp_timeout_stream", seconds(s.UDPStream))
	if s.TCPBeLiberal {
		add("nf_conntrack_tcp_be_liberal", 1)
	}
	return list
}

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// write writes the setting unless what is there is right.
func (w setting) write(root string, right func(is, want int) bool) (wrote bool, err error) {
	name := filepath.Join(root, w.file)
	text, err := os.ReadFile(name)
	if err != nil {
		return false, err
	}
	is, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return false, err
	}
	if right(is, w.value) {
		return false, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return false, err
	}
	_, err = file.WriteString(strconv.Itoa(w.value))
	err = errors.Join(err, file.Close())
	return err == nil, err
}
