package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// SBOM returns the modules of a program, as an SPDX 2.3 document. Go records them in the program.
func SBOM(from Source, name string, program []byte, info *debug.BuildInfo) ([]byte, error) {
	digest := sha256.Sum256(program)
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		// What makes the document unique is what it is about.
		Namespace: source + "/sbom/" + name + "-" + hex.EncodeToString(digest[:]),
		Creation:  creation{from.Created.UTC().Format(time.RFC3339), []string{"Tool: bellwether-images"}},
	}
	const main = "SPDXRef-main"
	d.add(main, info.Main.Path, cmp.Or(from.Version, from.Revision), "")
	d.Relationships = append(d.Relationships, relationship{d.ID, main, "DESCRIBES"})
	modules := []*debug.Module{{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}}
	for i, module := range append(modules, info.Deps...) {
		version, sum := module.Version, module.Sum
		if r := module.Replace; r != nil {
			return nil, fmt.Errorf("image: %s is replaced by %s: the list would be wrong", module.Path, r.Path)
		}
		if version == "(devel)" { // from the go.work of this repository
			version = cmp.Or(from.Version, from.Revision)
		}
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		d.add(id, module.Path, version, sum)
		d.Relationships = append(d.Relationships, relationship{main, id, "DEPENDS_ON"})
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("image: list of modules: %w", err)
	}
	return text.Bytes(), nil
}

type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []pkg          `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	Location string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Refs     []reference `json:"externalRefs"`
	Comment  string      `json:"comment,omitempty"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	To   string `json:"relatedSpdxElement"`
	Type string `json:"relationshipType"`
}

func (d *document) add(id, path, version, sum string) {
	p := pkg{
		ID: id, Name: path, Version: version, Location: "NOASSERTION",
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	}
	if sum != "" {
		p.Comment = "go.sum: " + sum
	}
	d.Packages = append(d.Packages, p)
}
