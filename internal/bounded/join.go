// Package bounded joins errors whose number grows with the objects of a cluster, so that their text does not.
package bounded

import (
	"fmt"
	"strings"
)

// mostTold is how many errors the text has.
const mostTold = 5

// Join is errors.Join with a text of the first five errors, each on a line, and the number of the others.
// errors.Is and errors.As find all of them. It returns nil if every error is nil.
func Join(errs ...error) error {
	var list joined
	for _, err := range errs {
		if err != nil {
			list = append(list, err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

type joined []error

// Error returns the text.
func (j joined) Error() string {
	var b strings.Builder
	for i, err := range j {
		if i == mostTold {
			fmt.Fprintf(&b, "\nand %d more", len(j)-mostTold)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap returns all errors.
func (j joined) Unwrap() []error { return j }
