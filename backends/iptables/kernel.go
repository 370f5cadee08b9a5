package iptables

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/vipkit/vipkit/backends/internal/nftgen"
)

// procKernel reads and writes files under /proc, in the network namespace of the calling
// thread.
type procKernel struct{}

const sysctls = "/proc/sys/"

func (procKernel) generation() (uint32, error) { return nftgen.Read() }

func (procKernel) sysctl(name string) (string, error) {
	text, err := os.ReadFile(sysctls + name)
	return strings.TrimSpace(string(text)), err
}

func (procKernel) setSysctl(name, value string) error {
	return os.WriteFile(sysctls+name, []byte(value), 0o644)
}

func (procKernel) legacyTables(f *family) ([]string, error) {
	name := "/proc/thread-self/net/ip_tables_names"
	if f.bits == 128 {
		name = "/proc/thread-self/net/ip6_tables_names"
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}
