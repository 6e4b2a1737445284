package teams

import (
	"bytes"
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
	"unicode"

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
		found := w.findServices(findServers(context.Background(), w.Models.List))
		lines = append(lines, found...)
		if len(found) > 0 {
			more = " more"
		}
	}
	remedy := "Set it, or run with --offline to try conclave without any model."
	if _, openai := needed[worker.KeyVariable]; openai {
		remedy = "There are three" + more + ` ways out:
  set OPENAI_API_KEY to a key for the OpenAI API, or
  set OPENAI_BASE_URL to a local server such as Ollama or vLLM
      (OPENAI_BASE_URL=http://127.0.0.1:11434/v1), or
  run with --offline, which needs no key and no network.`
	}
	return errors.New(strings.Join(append(lines, remedy), "\n"))
}

// findServices returns a line for each service whose key is set, and then for each local server, with
// the command that uses it.
func (w *Worker) findServices(servers []localServer) []string {
	var lines []string
	for _, s := range w.Models.Services() {
		where := ""
		if os.Getenv(s.APIKeyEnv) == "" {
			where = " in " + KeyFile
		}
		lines = append(lines, fmt.Sprintf("%s is set%s: `conclave run --model %s:NAME …`; `conclave models list %[3]s` lists the names", s.APIKeyEnv, where, s.Type))
	}
	for _, s := range servers {
		name := "NAME"
		if len(s.Models) > 0 {
			name = s.Models[0].ID
		}
		lines = append(lines, fmt.Sprintf("%s answers at %s: `conclave run --model %s:%s …`", s.Name, s.BaseURL, s.Name, cli.Line(name)))
	}
	return lines
}

// localServer is a server program that answers at its usual address on this machine.
type localServer struct {
	config.BackendType

	Models []worker.ListedModel
}

// serverTimeout is how long a local server may take to list its models.
const serverTimeout = 500 * time.Millisecond

// Reachable returns the types of services whose key is set, and of local servers that answer.
func (w *Worker) Reachable(ctx context.Context) (kinds []string, err error) {
	for _, s := range w.Models.Services() {
		kinds = append(kinds, s.Type)
	}
	for _, s := range findServers(ctx, w.Models.List) {
		kinds = append(kinds, s.Name)
	}
	if len(kinds) == 0 {
		err = errors.New("no key of a known service is set, and no local server answers at its usual address; set a key such as ANTHROPIC_API_KEY, or start a server such as ollama")
	}
	return kinds, err
}

// OfKinds returns a team that needs the keys of these types, which name its members.
func OfKinds(kinds []string) (t config.Team) {
	for _, kind := range kinds {
		t.Agents = append(t.Agents, config.Agent{ID: kind, Backend: config.Backend{Type: kind, Model: kind}})
	}
	return t
}

// findServers asks all usual addresses of local servers at a time. They are loopback addresses.
func findServers(ctx context.Context, list func(context.Context, string) ([]worker.ListedModel, error)) []localServer {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	local := slices.DeleteFunc(config.BackendTypes(), func(t config.BackendType) bool { return !t.Local })
	answers := make([]*localServer, len(local))
	var all sync.WaitGroup
	for i, t := range local {
		all.Go(func() {
			if models, err := list(ctx, t.Name); err == nil {
				answers[i] = &localServer{t, models}
			}
		})
	}
	all.Wait()
	var servers []localServer
	for _, s := range answers {
		if s != nil {
			servers = append(servers, *s)
		}
	}
	return servers
}

// FindKeys reads the keys that teams need and the environment lacks from KeyFile, if the user
// trusts it; on a terminal it asks. It looks for the variables of known services and those that
// the teams name. Only the worker of this process gets the keys.
func (w *Worker) FindKeys(c *cli.CLI, of ...config.Team) error {
	names, lacking := serviceVariables(), false
	for _, t := range of {
		lacking = lacking || len(w.Models.MissingKeys(t)) > 0
		for _, a := range t.Models() {
			if variable := a.Backend.APIKeyEnv; variable != "" && names[variable] == "" {
				names[variable] = "the team"
			}
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
	if f, keys, _ := readKeyFile(c, serviceVariables()); len(keys) > 0 && IsTrusted(f) {
		w.Models.Keys = keys
	}
}

// serviceVariables returns the key variables of known services, each with its service.
func serviceVariables() map[string]string {
	names := map[string]string{}
	for _, t := range config.BackendTypes() {
		for _, variable := range t.KeyVariables {
			names[variable] = t.Name
		}
	}
	return names
}

// readKeyFile reads the variables with the given names from KeyFile, except those that the environment
// has. The demands say for which services they are.
func readKeyFile(c *cli.CLI, names map[string]string) (f TrustedFile, keys map[string]string, demands []string) {
	f, keys = TrustedFile{Name: KeyFile}, map[string]string{}
	data, err := ReadFile(KeyFile)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.Warnf("no key is read from %s: %v", KeyFile, err)
		}
		return f, keys, nil
	}
	f.Content = data
	for line := range strings.Lines(string(bytes.TrimPrefix(data, []byte("\ufeff")))) {
		name, value := parseAssignment(line)
		if names[name] != "" && value != "" && os.Getenv(name) == "" {
			keys[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		demands = append(demands, fmt.Sprintf("take the key in %s for %s", name, names[name]))
	}
	return f, keys, demands
}

// parseAssignment reads a line NAME=VALUE, which may begin with export, have its value in quotes and end
// with a comment. The value is empty if it cannot be a key.
func parseAssignment(line string) (name, value string) {
	name, value, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if quote := value[:min(1, len(value))]; quote == `"` || quote == "'" {
		value, _, _ = strings.Cut(value[1:], quote)
	} else {
		value, _, _ = strings.Cut(value, " #")
		value = strings.TrimSpace(value)
	}
	if strings.HasPrefix(value, "$") || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name, ""
	}
	return name, value
}
