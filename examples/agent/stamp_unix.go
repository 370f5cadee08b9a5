//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// stampOf includes the inode, so that a file which replaces another one differs even with the
// same size and time.
func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), written: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}
