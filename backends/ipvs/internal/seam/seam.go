// Package seam lets the packages of ipvs hand each other a kernel whose methods are nobody else's business: a list of
// methods in the API would change with each new request to IPVS.
package seam

import "io"

// A Kernel keeps virtual servers: IPVS in one network namespace, or a memory for tests. It is safe for concurrent use.
type Kernel struct {
	impl any
}

// New returns a Kernel that passes requests on to impl, which has the methods that package ipvs asks for.
func New(impl any) *Kernel { return &Kernel{impl} }

// Impl returns what is behind a Kernel, nil if there is nothing.
func Impl(k *Kernel) any {
	if k == nil {
		return nil
	}
	return k.impl
}

// Close gives back what the Kernel took of the system. Nothing in the kernel changes.
func (k *Kernel) Close() error {
	if c, ok := Impl(k).(io.Closer); ok {
		return c.Close()
	}
	return nil
}
