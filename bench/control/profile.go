package control

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
)

// profileRate is fine enough to see what every endpoint costs.
const profileRate = 4096

// A profiler writes profiles of the first sync to a folder. The zero value writes none.
type profiler struct {
	prefix string
	cpu    *os.File
}

// newProfiler must be called before anything is allocated that is to be seen.
func newProfiler(dir string, names ...string) profiler {
	if dir == "" {
		return profiler{}
	}
	runtime.MemProfileRate = profileRate
	return profiler{prefix: filepath.Join(dir, strings.Join(names, "-"))}
}

func (p *profiler) start() error {
	if p.prefix == "" {
		return nil
	}
	var err error
	if p.cpu, err = os.Create(p.prefix + ".cpu"); err != nil {
		return err
	}
	return pprof.StartCPUProfile(p.cpu)
}

// stop ends the profile of processor time.
func (p *profiler) stop() error {
	if p.prefix == "" {
		return nil
	}
	pprof.StopCPUProfile()
	return p.cpu.Close()
}

// heap writes what is live now, API objects included.
func (p *profiler) heap() error {
	if p.prefix == "" {
		return nil
	}
	f, err := os.Create(p.prefix + ".heap")
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}
