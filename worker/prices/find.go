package prices

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// dated is the end of a name that says which snapshot of a model is meant.
var dated = regexp.MustCompile(`-(\d{4}-\d{2}-\d{2}|\d{8}|latest)$`)

// Find looks a model up by the address of its server and its name there. An
// address that is not a provider's own has no price: whoever runs a server of
// their own can give a model any name. A name is looked up as it is, then without
// the date or -latest at its end. At a router, such as OpenRouter, what is before
// the slash names the provider and what is after it the model, with dots or
// dashes in its version.
func Find(baseURL, model string) (Model, bool) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "https" || u.Port() != "" && u.Port() != "443" {
		return Model{}, false
	}
	host, t := strings.ToLower(u.Hostname()), known()
	if slices.Contains(t.Routers, host) {
		return t.routed(model)
	}
	for _, p := range t.Providers {
		if slices.Contains(p.Hosts, host) {
			return p.find(model)
		}
	}
	return Model{}, false
}

func (t table) routed(model string) (Model, bool) {
	prefix, name, _ := strings.Cut(model, "/")
	for _, p := range t.Providers {
		if p.Prefix == "" || p.Prefix != prefix {
			continue
		}
		if m, ok := p.find(name); ok {
			return m, ok
		}
		return p.find(strings.ReplaceAll(name, ".", "-"))
	}
	return Model{}, false
}

func (p provider) find(name string) (Model, bool) {
	m, ok := p.Models[name]
	if !ok {
		m, ok = p.Models[dated.ReplaceAllString(name, "")]
	}
	return m, ok
}
