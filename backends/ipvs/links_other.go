//go:build !linux

package ipvs

func newLinks(string) links { return &memoryLinks{} }

// supported reports why a Backend cannot work here, nil if it can.
func supported() error { return errNoIPVS(nil) }
