package teams

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"conclave/engine/config"
	"conclave/engine/text"
	"conclave/worker"
)

// TrustDemands returns the settings of a team that need the user's consent, as sentences
// without a subject, each with its agents:
//
//  1. A program of an MCP server runs outside the sandbox, with the variables that its
//     environment refers to.
//  2. An MCP server with a url receives the arguments of its tools.
//  3. A base_url receives prompts and answers, and the key of api_key_env.
//  4. Without a base_url, a key other than those of the backend's type is sent to the
//     server of that type.
//
// A server that is only named belongs to the operator. Sending a type's own key to its
// own server is the default and needs no consent.
func TrustDemands(t config.Team) []string {
	var demands []string
	agents := map[string][]string{}
	add := func(agent, demand string) {
		if demand == "" {
			return
		}
		if _, known := agents[demand]; !known {
			demands = append(demands, demand)
		}
		agents[demand] = append(agents[demand], cmp.Or(agent, "the agent"))
	}
	for _, a := range t.Models() {
		add(a.ID, ofBackend(a.Backend))
		for _, s := range a.MCPServers {
			add(a.ID, ofServer(s))
		}
	}
	for i, d := range demands {
		demands[i] = d + " (" + strings.Join(agents[d], ", ") + ")"
	}
	return demands
}

const runs = "run, outside the sandbox, "

// StartedPrograms returns the demands of teams that start programs, each once.
func StartedPrograms(teams ...config.Team) (programs []string) {
	for _, t := range teams {
		for _, d := range TrustDemands(t) {
			if strings.HasPrefix(d, runs) && !slices.Contains(programs, d) {
				programs = append(programs, d)
			}
		}
	}
	return programs
}

func ofBackend(b config.Backend) string {
	switch {
	case b.IsOffline():
		return ""
	case b.BaseURL != "" && b.APIKeyEnv != "":
		return fmt.Sprintf("send prompts and answers, and the key in %s, to %s", b.APIKeyEnv, quoteWord(b.BaseURL))
	case b.BaseURL != "":
		return "send prompts and answers to " + quoteWord(b.BaseURL)
	case b.APIKeyEnv != "" && !slices.Contains(b.Known().KeyVariables, b.APIKeyEnv):
		return fmt.Sprintf("send the key in %s to %s", b.APIKeyEnv, quoteWord(worker.Models{}.Resolve(b).BaseURL))
	}
	return ""
}

func ofServer(s config.MCPServer) string {
	switch {
	case s.Command != "":
		return fmt.Sprintf(runs+"`%s` as the MCP server %s", commandLine(s), s.Name)
	case s.URL != "":
		return fmt.Sprintf("connect to %s as the MCP server %s", quoteWord(withoutQuery(s.URL)), s.Name)
	}
	return ""
}

// withoutQuery returns a URL without its query, which may contain a secret.
func withoutQuery(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.RawQuery == "" {
		return raw
	}
	u.RawQuery = "…"
	return u.String()
}

func commandLine(s config.MCPServer) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		value := s.Env[name]
		if variable, ok := config.Reference(value); ok {
			value = `"$` + variable + `"`
		} else {
			value = quoteWord(value)
		}
		words = append(words, name+"="+value)
	}
	words = append(words, quoteWord(s.Command))
	words = append(words, text.Each(s.Args, quoteWord)...)
	return strings.Join(words, " ")
}

// maxWord is the maximum length of a word in a demand, in bytes. A longer word could
// push the rest off the screen.
const maxWord = 400

// quoteWord quotes a word so that a terminal shows all its characters on one line. It
// marks a truncated word.
func quoteWord(s string) string {
	cut := ""
	if len(s) > maxWord {
		cut = fmt.Sprintf("… (%d bytes)", len(s))
		s, _ = text.Head(s, maxWord)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s) + cut
	}
	return text.ShellQuote(s) + cut
}
