//go:build linux

package attack

import (
	"fmt"
	"io"
	"os"
)

// RunChild plays one of the parts of an attack and returns the exit code. Args are
// those after ChildCommand.
func RunChild(args []string, stdin io.Reader, stdout io.Writer) int {
	if len(args) == 0 {
		args = []string{""}
	}
	var err error
	switch role, args := args[0], args[1:]; role {
	case "work":
		err = work(stdin, stdout)
	case "victim":
		err = suffer(stdout)
	case "try":
		err = try(args, stdout)
	case "beat":
		err = beat(args)
	case "hop":
		err = hop(args)
	case "hog":
		err = hog(args)
	case "spin":
		err = spin(args)
	default:
		err = fmt.Errorf("%q is no part of an attack; `conclave sandbox check` starts these processes", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	return 0
}
