//go:build !linux

package ipvs

func newLinks(string) links { return nil } // New has returned an error before

// supported reports why a Backend cannot work here, nil if it can.
func supported() error { return errNoIPVS(nil) }
