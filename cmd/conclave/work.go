package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"conclave/engine/config"
	"conclave/worker"
)

// steps says whether a worker of this process may run steps.
type steps bool

const (
	runsSteps steps = true
	onlyLooks steps = false
)

// work starts a worker in this process and returns how to stop it. A worker
// that only looks answers queries, ends what can be ended and needs no team.
func (c *cli) work(p *place, team config.Team, s steps) (stop func(), err error) {
	cfg, err := p.worker(team, s)
	if err != nil {
		return nil, err
	}
	cfg.Tools = c.tools
	return startWorker(cfg)
}

// worker is what a worker at this place is made of.
func (p *place) worker(team config.Team, s steps) (worker.Config, error) {
	cfg := worker.Config{
		Client:    p.client,
		Store:     p.store,
		TaskQueue: p.queue,
		NoSteps:   s == onlyLooks,
	}
	if p.cluster {
		cfg.Cache = worker.DefaultCache()
	} else {
		cfg.Scratch = filepath.Join(p.dataDir, "scratch")
		cfg.Cache = filepath.Join(p.dataDir, "cache")
	}
	if cfg.NoSteps {
		return cfg, nil
	}
	var err error
	cfg.Teams, err = p.teams(team)
	return cfg, err
}

// startWorker makes a worker poll.
func startWorker(cfg worker.Config) (stop func(), err error) {
	w, err := worker.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := w.Start(); err != nil {
		return nil, err
	}
	return w.Stop, nil
}

// quietLogger keeps what the Temporal SDK says out of the terminal: it goes to
// a file of the data directory, or nowhere on a cluster.
func (t target) quietLogger() (logger *slog.Logger, closeLog func()) {
	nowhere := func() {}
	if t.cluster {
		return slog.New(slog.DiscardHandler), nowhere
	}
	name := filepath.Join(t.dataDir, "logs", "commands.log")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return slog.New(slog.DiscardHandler), nowhere // whatever is wrong, joining the stack says it
	}
	const enough = 8 << 20
	if info, err := os.Stat(name); err == nil && info.Size() > enough {
		_ = os.Rename(name, name+".1")
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return slog.New(slog.DiscardHandler), nowhere
	}
	return slog.New(slog.NewTextHandler(file, nil)).With("pid", os.Getpid()), func() { _ = file.Close() }
}
