// Package config reads the two files people write for Sluice: a tree of classes
// (tree.yaml) and a load to drive it with (load.yaml).
//
// Both readers are strict, because a limit that is silently not applied is worse
// than a program that does not start: an unknown key, a key in the wrong place, a
// number without its unit are mistakes, and so are YAML's anchors, aliases, merge
// keys and tags, which hide from the reader of a file what holds where. All
// mistakes of a file are reported at once, each an [*Error] with the file, the
// line, the class and what to write instead.
//
// # What is checked where
//
// Whether a tree makes sense (ceil not below rate, children within their parent,
// bursts that cover) is htb's to say; see [htb.Spec.Check]. This package finds
// the line for what htb says, and checks what htb never sees: the form of the
// file. A value that could not be read gives one mistake, and no second one for
// what follows from it.
//
// One table (keys.go) says of every key where it may stand and what it holds. The
// readers, the lists of allowed keys in messages and the JSON Schema for editors
// (see [Schema]) are made from it, so they cannot disagree.
//
// # Rates
//
// Rates are exact fractions from the text to the bucket: "2.5/s" is 5 in 2 s and
// "1/year" is one in 365 days; no float is involved. See [ParseRate].
package config
