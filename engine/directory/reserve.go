package directory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Reserve takes the first free of agent_a to agent_z for an agent that has no ID
// of its own, by making its directory: of two who do so at once, each gets
// another one.
func Reserve(root *os.Root) (string, error) {
	if err := root.Mkdir("agents", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", &UnwritableError{Err: fmt.Errorf("making the directory of agents: %w", err)}
	}
	for letter := 'a'; letter <= 'z'; letter++ {
		id := "agent_" + string(letter)
		err := root.Mkdir("agents/"+id, 0o755)
		switch {
		case err == nil:
			return id, nil
		case !errors.Is(err, fs.ErrExist):
			return "", &UnwritableError{Err: fmt.Errorf("making the directory of %s: %w", id, err)}
		}
	}
	return "", errors.New("agent_a to agent_z are all taken: give the agent an id of its own")
}
