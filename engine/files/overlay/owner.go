package overlay

import "os"

// nobody is the user and group that own the files of mounts if this process is root, because
// commands of a root worker run as that user.
const nobody = 65534

// Owner returns the user and the group to whom the files of a lower directory must belong.
func Owner() (user, group int) {
	if os.Geteuid() == 0 {
		return nobody, nobody
	}
	return os.Geteuid(), os.Getegid()
}
