//go:build linux

package attack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

const (
	peers    = "peers"             // in the workspace: the answers of others, which an agent can read and not write
	attacker = "conclave-attacker" // our program's name in the sandbox, found by PATH
)

// target is what the attacker knows: everything but secrets. Paths, process IDs
// and addresses are the host's.
type target struct {
	Name  string
	Token string // marks the attacker's processes, so that the host can find them

	Outside string // a directory beside the workspace
	Secret  string // a file in it that holds a secret
	Prey    string // a file in it that is to be changed

	Worker        int
	WorkerAddress uint64 // of a secret in its memory
	Victim        int
	VictimAddress uint64

	Port    int    // where the host listens, or is to connect to
	Port6   int    // the same for IPv6
	Socket  string // path of a Unix socket
	Name2   string // a second name: an abstract socket, a key, a file
	Number  int    // of a shared memory segment
	Handle  []byte // of Secret, as of name_to_handle_at
	Kind    int32  // of Handle
	Mount   string // of Secret's file system
	Paths   []string
	Size    int64 // how much a bomb is to take, in bytes
	Count   int   // how many
	Seconds float64
}

// report is the last thing that the attacker says.
type report struct {
	Proof string // that it worked, as far as it can tell
	Error string // what stopped it
}

const (
	startMark  = "@attack started"
	reportMark = "@attack report "
)

// try is the attacker.
func try(args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("the attacker takes a name and a target")
	}
	var t target
	if err := json.Unmarshal([]byte(args[1]), &t); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	a, ok := find(args[0])
	if !ok {
		return fmt.Errorf("there is no attack %q", args[0])
	}
	fmt.Fprintln(stdout, startMark)
	proof, err := a.try(t)
	r := report{Proof: proof}
	if err != nil {
		r.Error = err.Error()
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	_, err = fmt.Fprintf(stdout, "\n%s%s\n", reportMark, line)
	return err
}

// parse finds the report in the attacker's output; started is false if not even
// its first line is there.
func parse(output []byte) (r report, started, reported bool) {
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		started = started || line == startMark
		if rest, ok := strings.CutPrefix(line, reportMark); ok {
			reported = json.Unmarshal([]byte(rest), &r) == nil
		}
	}
	return r, started, reported
}

// secretForm is the form of all secrets.
var secretForm = regexp.MustCompile(`sk-attack-[0-9a-f]{32}`)

// loot is the secrets in data, for the judge to compare; an error if there is none.
func loot(data []byte) (string, error) {
	found := secretForm.FindAll(data, 64)
	if len(found) == 0 {
		return "", fmt.Errorf("no secret in %d bytes", len(data))
	}
	var all []string
	for _, f := range found {
		all = append(all, string(f))
	}
	return strings.Join(all, " "), nil
}

// either is the first way in that works.
func either(ways ...func() (string, error)) (string, error) {
	var errs []error
	for _, way := range ways {
		proof, err := way()
		if err == nil && proof != "" {
			return proof, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// done is the proof of an attack whose effect the host sees.
func done(err error) (string, error) {
	if err != nil {
		return "", err
	}
	return "done", nil
}
