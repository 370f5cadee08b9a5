package ip

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// CheckFamilies returns what is wrong with an option Families: nil lets the data plane choose, a list names those
// it must serve.
func CheckFamilies(list []corev1.IPFamily) error {
	if list != nil && len(list) == 0 {
		return errors.New("option Families: empty")
	}
	for _, f := range list {
		if f != corev1.IPv4Protocol && f != corev1.IPv6Protocol {
			return fmt.Errorf("option Families: unknown family %q", f)
		}
	}
	return nil
}
