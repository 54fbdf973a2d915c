/* The tables of the results database, and how an older file becomes a newer one. */
#ifndef COLM_LAB_SCHEMA_H
#define COLM_LAB_SCHEMA_H

#define SCHEMA_APPLICATION 1668246637 /* "colm" as PRAGMA application_id: a foreign database is told apart */

/* schema_step[v] brings PRAGMA user_version v to v+1; there are SCHEMA_VERSION of them. Steps that users have
 * seen are never edited: a change is a new step. */
#define SCHEMA_VERSION 3
extern const char *const schema_step[SCHEMA_VERSION];

/* Temporary views for readers that lie over the tables `run` and `stage`: a row that says "running" though its
 * owner is gone reads "interrupted". They need the SQL function colm_lives(host, boot, pid, start, seen). */
extern const char schema_honest[];

#endif
