package desk

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"

	"conclave/activities"
	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/hall"
	"conclave/cmd/conclave/runs"
	"conclave/cmd/conclave/team"
	"conclave/engine/config"
	"conclave/engine/coordination"
	sessionflow "conclave/workflows/session"
)

// Team is a team that callers can ask.
type Team struct {
	Name    string
	Offline bool // the built-in model plays an agent of it

	registered string          // the name that workers resolve; empty for their default
	config     json.RawMessage // the team itself, for the workers of a cluster
}

// NewTeam returns a team that callers can ask by name. The workers of a local stack find its
// definition in the data directory. On a cluster each session carries it.
func NewTeam(conn *hall.Connection, name string, of config.Team) (t Team, err error) {
	t.Name = name
	t.Offline = slices.ContainsFunc(of.Agents, func(a config.Agent) bool { return a.Backend.Type == config.Offline })
	if conn.Cluster {
		t.config, err = of.Canonical()
	} else {
		t.registered, err = team.Registry(conn.Target).Register(of)
	}
	if err != nil {
		return t, fmt.Errorf("offer the team %s: %w", name, err)
	}
	return t, nil
}

// WorkersTeam returns a team that the workers of a cluster have under its name.
func WorkersTeam(name string) Team {
	if name == activities.DefaultTeam {
		return Team{Name: name}
	}
	return Team{Name: name, registered: name}
}

// Desk starts, joins and follows the sessions of callers. It is safe for concurrent use.
type Desk struct {
	conn   *hall.Connection
	teams  []Team
	server server
	bills  bills

	watches watches
}

// server identifies a process among those that serve the same address.
type server struct {
	Address string `json:"address"` // host name and address
	Process string `json:"process"` // unique ID of this process
}

// New returns a desk for a server that listens on an address. The first team is the default.
func New(conn *hall.Connection, teams []Team, listen string) *Desk {
	host, _ := os.Hostname() // without a name the address suffices
	return &Desk{conn: conn, teams: teams, server: server{Address: host + " " + listen, Process: hall.NewRunID(started())}, bills: newBills(), watches: watches{of: map[string]*watch{}}}
}

// Teams returns the teams that a caller may ask.
func (d *Desk) Teams(by access.Caller) []Team {
	return slices.DeleteFunc(slices.Clone(d.teams), func(t Team) bool { return !by.MayAsk(t.Name) })
}

// Team returns the team with a name that a caller may ask.
func (d *Desk) Team(by access.Caller, name string) (Team, error) {
	var names []string
	for _, t := range d.Teams(by) {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return Team{}, &Refusal{Status: http.StatusNotFound, Code: "model_not_found", Message: fmt.Sprintf("there is no team %.80q for you; you may ask: %s", name, list(names))}
}

// Refusal is the reason why a request has no answer.
type Refusal struct {
	Status  int    // HTTP status
	Code    string // code for programs, which stays the same
	Param   string // the part of the request that is wrong; may be empty
	Message string

	cause error // error of a service that is away; may be nil
}

func (r *Refusal) Error() string { return r.Message }

func (r *Refusal) Unwrap() error { return r.cause }

// kind describes sessions to package runs.
var kind = &runs.Kind{
	Type: sessionflow.Type, Noun: "session", List: "list", MemoID: sessionflow.MemoSession, Failed: string(coordination.FailedAll),
}
