package teams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"conclave/cmd/conclave/cli"
	"conclave/engine/config"
	"conclave/worker"
)

// KeyFile is the file of the working directory in which keys are looked up that the environment
// lacks. Nothing else is read from it.
const KeyFile = ".env"

// MissingKeys returns an error that names the unset key variables, with remedies.
func MissingKeys(team config.Team) error { return (&Worker{}).missingKeys(team) }

func (w *Worker) missingKeys(team config.Team) error {
	needed := w.Models.MissingKeys(team)
	if len(needed) == 0 {
		return nil
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		lines = append(lines, fmt.Sprintf("the environment variable %s is not set; it holds the API key of %s", name, strings.Join(needed[name], ", ")))
	}
	lines[len(lines)-1] += "."
	if w.untrusted != nil {
		lines = append(lines, w.untrusted.Error())
	}
	more := ""
	if w.fileless {
		for _, s := range w.Reachable(context.Background()) {
			lines, more = append(lines, s.Use), " more"
		}
	}
	remedy := "Set it, or run with --offline to try conclave without any model."
	if _, openai := needed[worker.KeyVariable]; openai {
		remedy = "There are four" + more + ` ways out:
  name a model of any service or local server, as in conclave run --model ollama:NAME, or
  set OPENAI_API_KEY to a key for the OpenAI API, or
  set OPENAI_BASE_URL to a local server such as Ollama or vLLM
      (OPENAI_BASE_URL=http://127.0.0.1:11434/v1), or
  run with --offline, which needs no key and no network.`
	}
	return errors.New(strings.Join(append(lines, remedy), "\n"))
}

// Reachable is a service whose key is set, or a local server that answers.
type Reachable struct {
	Kind string
	Use  string // how it was found, and the command that uses it
}

// serverTimeout is how long a local server may take to list its models.
const serverTimeout = 500 * time.Millisecond

// Reachable returns the services whose key is set, then the local servers that answer at their usual
// addresses.
func (w *Worker) Reachable(ctx context.Context) []Reachable {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	return findReachable(ctx, w.Models.Services(), w.Models.List)
}

// findReachable asks all local servers at a time. Their usual addresses are those of loopback.
func findReachable(ctx context.Context, services []config.Backend, list func(context.Context, string) ([]worker.ListedModel, error)) []Reachable {
	var found []Reachable
	for _, s := range services {
		found = append(found, Reachable{s.Type, fmt.Sprintf("%s is set: `conclave run --model %s:NAME …`; `conclave models list %[2]s` lists the names", cmp.Or(s.APIKeyEnv, "OPENAI_BASE_URL"), s.Type)})
	}
	local := slices.DeleteFunc(config.BackendTypes(), func(t config.BackendType) bool { return !t.Local })
	servers := make([]Reachable, len(local))
	var all sync.WaitGroup
	for i, t := range local {
		all.Go(func() {
			listed, err := list(ctx, t.Name)
			if err != nil {
				return
			}
			name := append(listed, worker.ListedModel{ID: "NAME"})[0].ID
			servers[i] = Reachable{t.Name, fmt.Sprintf("%s answers at %s: `conclave run --model %[1]s:%[3]s …`", t.Name, t.BaseURL, cli.Line(name))}
		})
	}
	all.Wait()
	return append(found, slices.DeleteFunc(servers, func(s Reachable) bool { return s.Kind == "" })...)
}

// OfKinds returns a team that needs the keys of these types, which name its members.
func OfKinds(kinds []string) (t config.Team) {
	for _, kind := range kinds {
		t.Agents = append(t.Agents, config.Agent{ID: kind, Backend: config.Backend{Type: kind, Model: kind}})
	}
	return t
}

// FindKeys reads the keys that teams need and the environment lacks from KeyFile, if the user
// trusts it; on a terminal it asks. It looks for the variables of known services and those that
// the teams name. Only the worker of this process gets the keys.
func (w *Worker) FindKeys(c *cli.CLI, of ...config.Team) error {
	names, lacking := map[string]string{}, false
	for _, t := range of {
		lacking = lacking || len(w.Models.MissingKeys(t)) > 0
		for _, a := range t.Models() {
			names[a.Backend.APIKeyEnv] = "the team"
		}
	}
	if !lacking || w.untrusted != nil {
		return nil
	}
	f, keys, demands := readKeyFile(c, names)
	var err error
	if w.untrusted, err = askTrust(c, f, demands); err == nil && w.untrusted == nil {
		maps.Copy(keys, w.Models.Keys)
		w.Models.Keys = keys
	}
	return err
}

// findTrustedKeys is FindKeys for known services, without a question.
func (w *Worker) findTrustedKeys(c *cli.CLI) {
	if f, keys, _ := readKeyFile(c, map[string]string{}); len(keys) > 0 && IsTrusted(f) {
		w.Models.Keys = keys
	}
}

// readKeyFile reads the variables of known services, and those with the given names, from KeyFile,
// except those that the environment has. The demands say whose keys they are.
func readKeyFile(c *cli.CLI, names map[string]string) (f TrustedFile, keys map[string]string, demands []string) {
	f.Name, keys = KeyFile, map[string]string{}
	var err error
	if f.Content, err = ReadFile(KeyFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Warnf("no key is read from %s: %v", KeyFile, err)
	}
	for _, t := range config.BackendTypes() {
		for _, variable := range t.KeyVariables {
			names[variable] = t.Name
		}
	}
	for line := range strings.Lines(strings.TrimPrefix(string(f.Content), "\ufeff")) {
		if name, value := parseAssignment(line); name != "" && names[name] != "" && value != "" && os.Getenv(name) == "" {
			keys[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		demands = append(demands, fmt.Sprintf("take the key in %s for %s", name, names[name]))
	}
	return f, keys, demands
}

// parseAssignment reads a line NAME=VALUE, which may begin with export, have its value in quotes and end
// with a comment.
func parseAssignment(line string) (name, value string) {
	name, value, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
	if value = strings.TrimSpace(value); strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'") {
		value, _, _ = strings.Cut(value[1:], value[:1])
	} else {
		value, _, _ = strings.Cut(value, " #")
	}
	return strings.TrimSpace(name), strings.TrimSpace(value)
}
