//! A cluster and what its sessions share of plans and routines.

use crate::autoanalyze::Autoanalyzer;
use crate::plan_guard::GuardedStatements;
use crate::routine::{ProceduralLanguage, RoutinesByDatabase};
use crate::session::{self, StatementCache, TemplateCache};
use kilndb_base::Result;
use kilndb_base::park::ThreadPark;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_catalog::bootstrap;
use kilndb_context::cluster::{Cluster, ClusterOptions};

pub struct Instance {
    pub cluster: Arc<Cluster>,
    pub(crate) statements: StatementCache,
    pub(crate) templates: TemplateCache,
    pub(crate) guards: Arc<GuardedStatements>,
    pub(crate) routines: RoutinesByDatabase,
    languages: Vec<Arc<dyn ProceduralLanguage>>,
    autoanalyzer: Mutex<Option<Autoanalyzer>>,
}

impl Instance {
    /// `languages`: procedural ones besides SQL.
    pub fn open(options: ClusterOptions, languages: Vec<Arc<dyn ProceduralLanguage>>) -> Result<Arc<Instance>> {
        let (cluster, new_map) = Cluster::open(options)?;
        let instance = Arc::new(Instance {
            cluster,
            statements: Default::default(),
            templates: Default::default(),
            guards: Default::default(),
            routines: Default::default(),
            languages,
            autoanalyzer: Mutex::default(),
        });
        if let Some(map) = new_map {
            // System views in template1, then the other two databases.
            instance.cluster.with_system_oids(|| session::create_system_views(instance.clone()))?;
            instance.cluster.complete(&map, &ThreadPark::new())?;
        }
        instance.upgrade_catalogs()?;
        Ok(instance)
    }

    /// From now on tables are analyzed when they have changed much, until [`Instance::shutdown`].
    pub fn start_autoanalyze(self: &Arc<Instance>) -> Result<()> {
        let started = Autoanalyzer::start(self)?;
        *self.autoanalyzer.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        Ok(())
    }

    /// An orderly stop; its sessions have ended.
    pub fn shutdown(&self) -> Result<()> {
        let autoanalyzer = self.autoanalyzer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(autoanalyzer) = autoanalyzer {
            autoanalyzer.end();
        }
        self.cluster.shutdown()
    }

    pub(crate) fn language(&self, name: &str) -> Option<&Arc<dyn ProceduralLanguage>> {
        self.languages.iter().find(|language| language.name() == name)
    }

    /// Brings the catalogs of databases that an earlier build has written up to date.
    fn upgrade_catalogs(self: &Arc<Instance>) -> Result<()> {
        for database in self.cluster.all_databases()? {
            if bootstrap::catalog_version(&self.cluster.engine, database.oid)? < bootstrap::CATALOG_VERSION {
                session::upgrade_catalog(self.clone(), database)?;
            }
        }
        Ok(())
    }

    /// Definitions whose stored dependencies are not those that binding them finds, in words.
    pub fn check_definitions(self: &Arc<Instance>) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for database in self.cluster.all_databases()? {
            problems.extend(session::check_catalog(self.clone(), database)?);
        }
        Ok(problems)
    }
}
