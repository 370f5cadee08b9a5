package nftables

import "context"

// A runner runs nft.
type runner interface {
	// run executes statements, all or nothing. When ctx is done it may go on for process.Grace: a
	// killed nft leaves open whether it committed.
	run(ctx context.Context, text []byte) error

	// check asks the kernel whether it would take the statements.
	check(ctx context.Context, text []byte) error

	// version returns what nft says of itself.
	version(ctx context.Context) (string, error)
}

// A sender is a runner that writes elements without nft.
type sender interface {
	// send commits a batch, all or nothing.
	send(b *batch) error
}

// A kernel reads nftables without nft.
type kernel interface {
	// release returns the version of the kernel, as in "6.1.0-13-amd64".
	release() (string, error)

	// generation returns a number that every commit by anybody changes.
	generation() (uint32, error)

	// read returns what a table has, nil if it does not exist.
	read(f *family, table string) (*contents, error)

	// elements returns the elements of a box.
	elements(f *family, table string, b box) ([]element, error)

	// element returns one element of a box by its key; ok is false if there is none.
	element(f *family, table string, b box, k key) (el element, ok bool, err error)

	// clients returns what packets have written to a map of clients.
	clients(f *family, table string, b box) ([]client, error)
}

// contents is what a table has but elements.
type contents struct {
	chains map[string]string  // name -> print, as chain.print makes it
	boxes  map[string]boxInfo // sets and maps
}

// boxInfo is what can be read back of a box.
type boxInfo struct {
	isMap  bool
	keyLen uint32 // bytes
}
