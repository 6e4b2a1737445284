package project

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Unfilled is the address in a prd.md that waits for its author.
const Unfilled = "http://HOST:PORT"

// prdTemplate is a prd.md that waits for its author.
const prdTemplate = `# Project

What agents are told of the application under test: the sections Application Type, Base URL and Tech Stack
always, Authentication only in steps that sign in. Other sections are for people.

## Application Type

web

## Base URL

` + Unfilled + `

## Tech Stack

## Authentication
`

// PRD is where prd.md is, for people and other programs.
func (p *Project) PRD() string { return filepath.Join(p.dir, prdFile) }

// Template writes a prd.md for its author to fill in, unless there is one.
func (p *Project) Template() (written bool, err error) {
	if _, err := p.root.Lstat(prdFile); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, p.writeBytes(prdFile, []byte(prdTemplate))
}
