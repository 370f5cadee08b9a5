//go:build !linux

package ipvs

// Open fails: there is IPVS on Linux only.
func Open() (*Kernel, error) { return nil, errNoIPVS(nil) }
