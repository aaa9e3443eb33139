BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('v3.2.0.a');
CREATE TABLE studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
);
INSERT INTO "studies" VALUES(1,'trials/2a92f910');
CREATE TABLE study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_directions" VALUES(1,'MINIMIZE',1,0);
CREATE TABLE study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
CREATE TABLE study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "study_user_attributes" VALUES(1,1,'description','{"cells": [{"recipe": "digits-100/ict", "recipe_id": "ff7038", "seed": 0}], "mode": "exact"}');
CREATE TABLE trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_intermediate_values" VALUES(1,1,10,0.9,'FINITE');
INSERT INTO "trial_intermediate_values" VALUES(2,1,20,0.89,'FINITE');
CREATE TABLE trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
CREATE TABLE trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_system_attributes" VALUES(1,1,'fixed_params','{}');
CREATE TABLE trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_user_attributes" VALUES(1,1,'recipe','"digits-100/ict"');
INSERT INTO "trial_user_attributes" VALUES(2,1,'recipe_id','"ff7038"');
INSERT INTO "trial_user_attributes" VALUES(3,1,'seed','0');
INSERT INTO "trial_user_attributes" VALUES(4,1,'worker','{"gpu": null, "host": "host", "pid": 16089, "key": "e99f49e2"}');
INSERT INTO "trial_user_attributes" VALUES(5,1,'progress','{"step": 0, "steps": 20, "beats": 1, "key": "e99f49e2"}');
INSERT INTO "trial_user_attributes" VALUES(6,1,'result','{"recipe": "digits-100/ict", "recipe_id": "ff7038", "seed": 0, "steps": 20, "seconds": 0.376, "test_error": 0.8664192949907236, "test_error_best": 0.8664192949907236, "test_error_student": 0.7198515769944341, "test_error_teacher": 0.8664192949907236, "test_error_swa": null, "valid_error": 0.89, "valid_error_best": 0.89, "best_step": 20, "partial": false, "n_test": 539, "n_valid": 100, "n_labeled": 100, "n_unlabeled": 1058, "n_parameters": 1182, "resumed_from": [], "ranks": 1, "device": "cpu", "machine": "AMD EPYC", "threads": 1, "versions": {"ict": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu"}, "commit": "1a1f98c23f139fd2894f83dfab1464aaa534e309", "finished": "2026-11-18T22:51:43+00:00", "settings": {"dataset": {"name": "digits", "test_fraction": 0.3}, "network": {"name": "convnet", "width": 4, "dropout": 0.0}, "algorithm": {"name": "ict", "alpha": 1.0, "alpha_labeled": null, "mix_labeled": false, "targets": "probs", "pairs": "within", "consistency": "mse", "temperature": 1.0, "depth": 0, "logging_forwards": false}, "split": {"labeled": 100, "valid": 100, "unlabeled": "disjoint"}, "inputs": {"pad": 1, "reflect": false, "flip": false, "shared_flip": false, "augment": "pixels", "scale": "channels", "zca": "none", "zca_epsilon": 1e-06, "noise": 0.0}, "optimizer": {"name": "sgd", "lr": 0.2, "turn": 0.01, "momentum": 0.9, "final_momentum": null, "nesterov": true, "beta2": 0.999, "weight_decay": 0.001}, "rate": {"shape": "cosine", "stretch": 1.125, "cycle_from": 0.15, "cycle": 0.025, "rampup": 0.0, "rampdown": 0.2, "drop": 0.2}, "average": {"decay": 0.98, "warmup": true, "when": "after", "batchnorm": "own"}, "swa": {"start": null, "every": 0.0025, "batches": 100}, "train": {"steps": 20, "labeled_batch": 32, "unlabeled_batch": 100, "layout": "apart", "labeled_order": "reshuffled", "pair_groups": 1, "weight": 100.0, "rampup": 0.25, "rampup_from_zero": false}, "eval": {"every": 10, "log_every": 50, "batch": 500, "augmented_valid": false, "test_limit": null}}, "tested": true, "mode": "exact", "changed_at": [], "curve": [{"step": 10, "seconds": 0.158, "valid_error_student": 0.86, "valid_error_teacher": 0.9}, {"step": 20, "seconds": 0.346, "valid_error_student": 0.78, "valid_error_teacher": 0.89}]}');
CREATE TABLE trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
);
INSERT INTO "trial_values" VALUES(1,1,0,8.66419294990723565241e-01,'FINITE');
CREATE TABLE trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
);
INSERT INTO "trials" VALUES(1,0,1,'COMPLETE','2026-11-18 22:51:42.862019','2026-11-18 22:51:43.530889');
CREATE TABLE version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
);
INSERT INTO "version_info" VALUES(1,12,'5.0.0');
CREATE UNIQUE INDEX ix_studies_study_name ON studies (study_name);
CREATE INDEX ix_trials_study_id ON trials (study_id);
COMMIT;
